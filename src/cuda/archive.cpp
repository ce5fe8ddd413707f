#include "cuda/archive.hpp"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/digest.hpp"

namespace splitq::cuda {
namespace {

constexpr std::string_view kMagic = "splitq kernel 1\n";

// The fields, in the order in which they lie; Visit is called on each.
template <class Entry, class Visit>
void for_each_field(Entry& entry, Visit visit) {
  auto& k = entry.kernel;
  auto& u = k.usage;
  visit(entry.key), visit(k.lowered_name), visit(k.image), visit(k.log), visit(k.compiler), visit(k.seconds);
  visit(u.registers), visit(u.spill_store_bytes), visit(u.spill_load_bytes), visit(u.stack_bytes);
  visit(u.static_shared_bytes);
}

template <class T>
void put(std::string* out, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    put(out, static_cast<std::uint64_t>(value.size()));
    out->append(value);
  } else {
    out->append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
}

template <class T>
bool take(std::string_view* in, T* value) {
  if constexpr (std::is_same_v<T, std::string>) {
    std::uint64_t size = 0;
    if (!take(in, &size) || size > in->size()) return false;
    value->assign(in->substr(0, size));
    in->remove_prefix(size);
  } else {
    if (in->size() < sizeof(T)) return false;
    std::memcpy(value, in->data(), sizeof(T));
    in->remove_prefix(sizeof(T));
  }
  return true;
}

}  // namespace

std::string serialize(const ArchiveEntry& entry) {
  std::string body;
  for_each_field(entry, [&](const auto& field) { put(&body, field); });
  std::string out(kMagic);
  out += digest(body);
  put(&out, body);
  return out;
}

std::optional<ArchiveEntry> take_entry(std::string_view* bytes) {
  if (!bytes->starts_with(kMagic) || bytes->size() < kMagic.size() + kDigestLength) return std::nullopt;
  const std::string_view expected = bytes->substr(kMagic.size(), kDigestLength);
  std::string_view rest = bytes->substr(kMagic.size() + kDigestLength);
  std::string body;
  if (!take(&rest, &body) || digest(body) != expected) return std::nullopt;
  std::string_view fields = body;
  ArchiveEntry entry;
  bool whole = true;
  for_each_field(entry, [&](auto& field) { whole = whole && take(&fields, &field); });
  if (!whole || !fields.empty()) return std::nullopt;
  *bytes = rest;
  return entry;
}

}  // namespace splitq::cuda
