"""Embeds sentences, attention by splitq, and shows for each the one that is nearest in meaning.

    python similarity.py --splitq build/release/cli/splitq [--dtype bf16] [--sentences FILE]
"""

import argparse
from pathlib import Path

import numpy as np

import attention
from encoder import SentenceEncoder, cosine_distances
from write_sample import SAMPLE


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splitq", type=Path, required=True, help="the command line tool")
    parser.add_argument("--dtype", choices=["fp32", "fp16", "bf16"], default="fp32", help="that attention computes in")
    parser.add_argument("--sentences", type=Path, default=SAMPLE / "sentences.txt", help="one sentence a line")
    args = parser.parse_args()

    sentences = args.sentences.read_text().splitlines()
    if len(sentences) < 2:
        parser.error(f"argument --sentences: {args.sentences} has {len(sentences)} lines, must have 2 or more")
    encoder = SentenceEncoder()
    embeddings = encoder.encode(sentences, attention.CommandLine(args.splitq, args.dtype))
    distances = cosine_distances(embeddings, encoder.encode(sentences, attention.reference))

    similarity = embeddings @ embeddings.T
    np.fill_diagonal(similarity, -np.inf)
    for index, nearest in enumerate(similarity.argmax(axis=1)):
        print(f"{sentences[index]}\n  nearest ({similarity[index, nearest]:.3f}): {sentences[nearest]}")
    print(f"\ncosine distance to the fp64 computation, largest of {len(sentences)}: {distances.max():.1e}")


if __name__ == "__main__":
    main()
