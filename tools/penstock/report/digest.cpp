#include "tools/penstock/report/digest.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <xxhash.h>

namespace penstock::tool {
namespace {

void put(XXH3_state_t* state, std::uint64_t value) {
  std::array<unsigned char, 8> little{};
  for (unsigned char& byte : little) {
    byte = static_cast<unsigned char>(value);
    value >>= 8;
  }
  XXH3_64bits_update(state, little.data(), little.size());
}

void put(XXH3_state_t* state, std::string_view text) {
  put(state, std::uint64_t{text.size()});
  XXH3_64bits_update(state, text.data(), text.size());
}

void put_values(XXH3_state_t* state, const Tensor& tensor) {
  if (!tensor.contiguous()) return put_values(state, tensor.clone());
  if (tensor.dtype() != DType::bytes) {
    XXH3_64bits_update(state, tensor.data(), tensor.nbytes());
    return;
  }
  for (std::int64_t i = 0; i < tensor.volume(); ++i) put(state, tensor.bytes_at(i));
}

void put_component(XXH3_state_t* state, const std::string& name, const Tensor& whole,
                   std::int64_t valid_rows) {
  const bool padded = valid_rows >= 0 && whole.rank() > 0 && valid_rows < whole.dim(0);
  const Tensor tensor = padded ? whole.slice(0, 0, valid_rows) : whole;
  put(state, name);
  put(state, name_of(tensor.dtype()));
  put(state, static_cast<std::uint64_t>(tensor.rank()));
  for (const std::int64_t extent : tensor.shape().dims())
    put(state, static_cast<std::uint64_t>(extent));
  put_values(state, tensor);
}

}  // namespace

void Digest::Free::operator()(XXH3_state_s* state) const noexcept {
  XXH3_freeState(state);
}

Digest::Digest() : batch_(XXH3_createState()), whole_(XXH3_createState()) {
  if (batch_ == nullptr || whole_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(whole_.get());
}

std::uint64_t Digest::add(const Element& element) {
  XXH3_64bits_reset(batch_.get());
  std::vector<std::size_t> order(element.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return element.name(a) < element.name(b); });
  for (const std::size_t i : order)
    put_component(batch_.get(), element.name(i), element[i], element.valid_rows);
  const std::uint64_t digest = XXH3_64bits_digest(batch_.get());
  put(whole_.get(), digest);
  return digest;
}

void Digest::add_known(std::uint64_t digest) {
  put(whole_.get(), digest);
}

std::uint64_t Digest::total() const {
  return XXH3_64bits_digest(whole_.get());
}

}  // namespace penstock::tool
