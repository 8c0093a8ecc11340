#include "staging/reconstruct/run_on.h"

#include <span>
#include <utility>

#include <penstock/device_backend.h>

#include "staging/cuda/module.h"
#include "staging/reconstruct/twin.h"

namespace penstock::reconstruct {

void run_on(const StreamView& stream, const Batch& batch, std::size_t out_bytes,
            std::size_t work_bytes) {
  if (stream.device().id().kind == DeviceKind::cuda) {
    cuda_module().reconstruct(batch, stream);
    return;
  }
  const auto rows = static_cast<std::size_t>(batch.count);
  const auto memory = [](const auto* begin, std::size_t bytes) {
    return std::span(reinterpret_cast<const std::byte*>(begin), bytes);
  };
  HostWork work{.run = [batch] { run_here(batch); },
                .reads = {memory(batch.offsets, (rows + 1) * sizeof(batch.offsets[0])),
                          memory(batch.plans, rows * sizeof(batch.plans[0]))},
                .writes = {memory(batch.work, work_bytes)}};
  if (batch.out != nullptr)
    work.writes.push_back(memory(static_cast<const std::byte*>(batch.out), out_bytes));
  if (batch.fits != nullptr)
    work.writes.push_back(memory(batch.fits, rows * sizeof(batch.fits[0])));
  stream.device().backend().launch(std::move(work), stream.state(), Site::current());
}

}  // namespace penstock::reconstruct
