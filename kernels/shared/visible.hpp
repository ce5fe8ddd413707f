// Which keys a query sees (docs/semantics.md, step 4), as a range. Compiled by host and device alike.
#pragma once

namespace splitq {

struct KeyRange {
  long long begin = 0;  // first visible key
  long long end = 0;    // one past the last; begin >= end: none
};

/// Band of keys around the diagonal j = i + off; left or right < 0: unlimited on that side.
struct Band {
  long long off = 0;
  long long left = -1;
  long long right = -1;
  long long seqlen_k = 0;
};

/// Keys that query i sees. Saturates: a side that reaches past every key is as good as unlimited.
constexpr KeyRange visible_keys(const Band& band, long long i) {
  const long long diagonal = i + band.off;
  KeyRange range{0, band.seqlen_k};
  if (band.left >= 0 && diagonal - range.begin > band.left) range.begin = diagonal - band.left;
  if (band.right >= 0 && range.end - 1 - diagonal > band.right) range.end = diagonal + band.right + 1;
  if (range.end < range.begin) range.end = range.begin;
  return range;
}

}  // namespace splitq
