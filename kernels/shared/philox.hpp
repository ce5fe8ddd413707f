// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and what
// dropout takes from it (docs/semantics.md, "Dropout"). Compiled by host and device alike.
#pragma once

namespace splitq {

struct PhiloxKey {
  unsigned k0, k1;
};

struct PhiloxWords {
  unsigned w[4];
};

constexpr PhiloxWords philox_4x32_10(PhiloxWords c, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p0 = 0xD2511F53ull * c.w[0];
    const unsigned long long p1 = 0xCD9E8D57ull * c.w[2];
    c = {{static_cast<unsigned>(p1 >> 32) ^ c.w[1] ^ key.k0, static_cast<unsigned>(p1),
          static_cast<unsigned>(p0 >> 32) ^ c.w[3] ^ key.k1, static_cast<unsigned>(p0)}};
    key.k0 += 0x9E3779B9u;
    key.k1 += 0xBB67AE85u;
  }
  return c;
}

/// The part of dropout's stream that a whole call shares.
struct DropoutStream {
  PhiloxKey key{};
  unsigned counter3 = 0;
  unsigned threshold = 0;  // a weight is kept if its word >= threshold
};

constexpr DropoutStream dropout_stream(unsigned long long seed, unsigned long long offset, double probability) {
  return {{static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32) ^ static_cast<unsigned>(offset >> 32)},
          static_cast<unsigned>(offset),
          static_cast<unsigned>(probability * 4294967296.0)};
}

/// Words of keys 4 * key_quad .. 4 * key_quad + 3 for query i of the head numbered b * Hq + h.
constexpr PhiloxWords dropout_words(const DropoutStream& stream, unsigned key_quad, unsigned query, unsigned head) {
  return philox_4x32_10({{key_quad, query, head, stream.counter3}}, stream.key);
}

}  // namespace splitq
