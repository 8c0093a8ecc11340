// Streams may end before the leases and tensors that wait for them: on the host, on the example's
// device, and on a GPU.
#include "tests/staging/lifetimes_on.h"

#include "tests/staging/gate.h"

namespace penstock::test {

std::function<void()> hold(Device& device, StreamView stream) {
  constexpr std::int64_t kOtherwise = 2'000'000;
  const auto gate = std::make_shared<Gate>();
  gate->hold(device, stream, kOtherwise);
  return [gate] { gate->open(); };
}

INSTANTIATE_TEST_SUITE_P(Devices, LifetimesOn, testing::ValuesIn(bed_kinds()), name_of_bed);

}  // namespace penstock::test
