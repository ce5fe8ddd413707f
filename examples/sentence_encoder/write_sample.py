"""Writes what one layer's attention receives, and its fp64 result, as .npy files that splitq reads.

    python write_sample.py [--sentences FILE] [--layer N] [--out FOLDER]

q.npy, k.npy, v.npy   (total, heads, head_dim), fp16
cu_seqlens.npy        (sentences + 1), int32
out.npy               (total, heads, head_dim), fp32: attention of exactly these q, k, v, computed in fp64
"""

import argparse
from pathlib import Path

import numpy as np

import attention
from encoder import SentenceEncoder

SAMPLE = Path(__file__).parent / "sample"


def record_layers(encoder, sentences):
    """(q, k, v, cu_seqlens) of every layer, in order."""
    calls = []

    def recording(*tensors):
        calls.append(tensors)
        return attention.reference(*tensors)

    encoder.encode(sentences, recording)
    return calls


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=Path, default=SAMPLE / "sentences.txt", help="one sentence a line")
    parser.add_argument("--layer", type=int, default=3, help="counted from 0")
    parser.add_argument("--out", type=Path, default=SAMPLE, help="folder")
    args = parser.parse_args()

    encoder = SentenceEncoder()
    if not 0 <= args.layer < encoder.num_layers:
        parser.error(f"argument --layer: {args.layer}, must be 0 to {encoder.num_layers - 1}")
    layers = record_layers(encoder, args.sentences.read_text().splitlines())
    q, k, v, cu_seqlens = layers[args.layer]
    q, k, v = (x.astype(np.float16) for x in (q, k, v))
    arrays = {"q": q, "k": k, "v": v, "cu_seqlens": cu_seqlens,
              "out": attention.reference(q, k, v, cu_seqlens).astype(np.float32)}
    args.out.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(args.out / f"{name}.npy", array)
        print(f"{args.out / name}.npy  {array.shape} {array.dtype}")


if __name__ == "__main__":
    main()
