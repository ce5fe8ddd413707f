#!/bin/sh
# Attention of one layer of a real sentence encoder, on real sentences, checked against its fp64 result.
#
#   demo.sh SPLITQ      the command line tool, or the build folder that has it
#
# sample/ holds what the layer receives and the result (write_sample.py made it). This needs a shell, od and awk.
set -eu
export LC_ALL=C  # a point in numbers

sample=$(dirname "$0")/sample
splitq=${1:?usage: demo.sh SPLITQ}
[ -d "$splitq" ] && splitq=$splitq/cli/splitq
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

attend() {  # attend DTYPE: writes $out/DTYPE.npy, prints the milliseconds that it took
  begin=$(date +%s%N)
  "$splitq" attend --q "$sample/q.npy" --k "$sample/k.npy" --v "$sample/v.npy" \
    --cu-seqlens-q "$sample/cu_seqlens.npy" --cu-seqlens-k "$sample/cu_seqlens.npy" \
    --dtype "$1" --out "$out/$1.npy" >&2
  echo $((($(date +%s%N) - begin) / 1000000))
}

numbers() {  # numbers FILE.npy TYPE BYTES: its elements, one a line; the header's length is its bytes 8 and 9
  od -An -v -t "$2" -w"$3" -j $((10 + $(od -An -t u2 -j 8 -N 2 "$1"))) "$1"
}

echo "Attention of layer 4 of 6 of the sentence encoder all-MiniLM-L6-v2: 12 heads of size 32, packed sentences"
fp32_ms=$(attend fp32)
bf16_ms=$(attend bf16)

numbers "$sample/cu_seqlens.npy" d4 4 >"$out/cu_seqlens"
for name in "$sample/out" "$out/fp32" "$out/bf16"; do
  numbers "$name.npy" f4 4 >"$out/$(basename "$name").numbers"
done
paste "$out/out.numbers" "$out/fp32.numbers" "$out/bf16.numbers" >"$out/columns"

# The outputs are up to about 2 in size; bf16 has 8 bits, and rounds q, k and v too.
awk -v fp32_ms="$fp32_ms" -v bf16_ms="$bf16_ms" -v fp32_limit=1e-5 -v bf16_limit=2e-2 -v per_token=$((12 * 32)) '
  function error_of(text) {  # NaN, infinity and a missing number are no numbers
    if (text !~ /^-?[0-9]/) return 1e30
    return text + 0 > $1 + 0 ? text - $1 : $1 - text
  }
  function larger(a, b) { return a > b ? a : b }
  function shortened(text) { return length(text) > 72 ? substr(text, 1, 69) "..." : text }
  FNR == 1 { file++ }
  file == 1 { sentences[FNR] = $0; next }
  file == 2 { cu_seqlens[FNR] = $1 + 0; next }
  {
    if (FNR > cu_seqlens[b + 1] * per_token) b++
    fp32[b] = larger(fp32[b], error_of($2)); fp32_worst = larger(fp32_worst, fp32[b])
    bf16[b] = larger(bf16[b], error_of($3)); bf16_worst = larger(bf16_worst, bf16[b])
  }
  END {
    print "largest error against fp64\n    fp32     bf16  tokens  sentence"
    for (i = 1; i in sentences; i++)
      printf "%8.0e %8.0e  %6d  %s\n", fp32[i], bf16[i], cu_seqlens[i + 1] - cu_seqlens[i], shortened(sentences[i])
    printf "%8.0e %8.0e  allowed\n", fp32_limit, bf16_limit
    printf "%5d ms %5d ms  the whole command: start, read, compute, write\n", fp32_ms, bf16_ms
    if (FNR != cu_seqlens[i] * per_token || fp32_worst > fp32_limit || bf16_worst > bf16_limit) {
      print "WRONG: the result is not what the fp64 computation gives"
      exit 1
    }
  }' "$sample/sentences.txt" "$out/cu_seqlens" "$out/columns"
