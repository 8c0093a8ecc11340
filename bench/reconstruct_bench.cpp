// penstock_reconstruct_bench RECORDS [DEVICE [EPOCHS [IO]]]: what the host has to do so that a
// device can make images from coefficient records: read, choose crops, check CRC32C, copy packed
// bytes into the slot. Random-resized crops of 224, flipped and normalised, batches of 64. Where
// DEVICE is a GPU (cuda:0) the images are made, too, and timed by events; a host device leaves that
// away, as its kernels' twin is not built to be fast. The first of EPOCHS (default 5) is not
// counted. IO is pread or mmap. Prints one JSON object.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <penstock/penstock.h>

#include "bench/measure.h"

namespace penstock::bench {
namespace {

constexpr std::int64_t kBatch = 64;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The work of one device: makes the images, or only takes the batches.
class Device {
 public:
  Device(const DevicePtr& device, const ImageOps& ops)
      : device_(device), stream_(device, "bench"), begin_(device), end_(device) {
    if (device->id().kind != DeviceKind::cuda) return;
    reconstructor_.emplace(device, kBatch, ops);
    const ComponentSpec& image = reconstructor_->image();
    out_ = {image.dtype, image.shape.prepend(kBatch), nullptr, nullptr};
    room_ = out_.nbytes();
    out_.data = device->allocate(room_);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() {
    stream_.view().synchronize();
    if (room_ > 0) device_->deallocate(out_.data, room_);
  }

  /// Waits for one batch in eight, to read the clock of its kernels.
  void take(StagedBatch& batch) {
    batch.wait(stream_);
    if (reconstructor_) {
      const bool timed = taken_++ % 8 == 0;
      const std::int64_t rows = batch["image"].shape[0];
      out_.shape = reconstructor_->image().shape.prepend(rows);
      if (timed) stream_.view().record(begin_);
      reconstructor_->run(stream_, batch, out_);
      if (timed) {
        stream_.view().record(end_);
        end_.view().synchronize();
        kernel_ns_ += end_.view().completed_ns() - begin_.view().completed_ns();
        timed_ += rows;
      }
    }
    batch.release(stream_);
  }
  void finish() { stream_.view().synchronize(); }
  /// Seconds of kernels for 1,000 images; 0 if there were none.
  double kernel_s() const {
    return timed_ == 0 ? 0 : 1e-6 * static_cast<double>(kernel_ns_) / static_cast<double>(timed_);
  }

 private:
  DevicePtr device_;
  Stream stream_;
  Event begin_;
  Event end_;
  std::optional<Reconstructor> reconstructor_;
  DeviceTensor out_;
  std::size_t room_ = 0;
  std::uint64_t taken_ = 0;
  std::int64_t kernel_ns_ = 0;
  std::int64_t timed_ = 0;
};

int run(const std::string& records, const std::string& name, std::uint64_t epochs,
        const std::string& io) {
  const ImageOps ops = decode_image().random_resized_crop(224).random_flip().normalize();
  FileOptions files;
  files.files = make_file_system(io);
  const Dataset dataset =
      image_records({records}, files).shuffle().map(ops.on_device()).batch(kBatch);
  const std::vector<DevicePtr> one = devices(name);
  FeedOptions options;
  options.end = EpochEnd::stop;
  options.max_bytes = 64U << 20;
  options.run.seed = 1;
  options.run.epochs = epochs;
  Feed feed(dataset, one, options);
  Device device(one.front(), ops);
  double cpu = 0;
  double wall = 0;
  std::int64_t images = 0;
  std::uint64_t epoch = 0;
  std::uint64_t bytes = 0;
  while (!feed.ended(0)) {
    if (std::optional<StagedBatch> batch = feed.next(0)) {
      images += epoch > 0 ? batch->valid_rows() : 0;
      const DeviceTensor& packed = (*batch)["image"];
      if (epoch > 0 && one.front()->unified()) {
        batch->synchronize();
        const auto* offsets = reinterpret_cast<const std::uint64_t*>(packed.data);
        bytes += offsets[packed.shape[0]];
      }
      device.take(*batch);
    } else if (epoch++ == 0) {
      cpu = process_seconds();
      wall = now();
    }
  }
  device.finish();
  if (images == 0) throw Error(ErrorCode::invalid_argument, "no images behind the first epoch");
  const auto per_thousand = 1000 / static_cast<double>(images);
  std::printf(
      "{\"bench\":\"reconstruct\",\"device\":\"%s\",\"images\":%lld,\"io\":\"%s\","
      "\"host_cpu_s_per_1000\":%.4f,\"images_per_s\":%.0f,\"packed_bytes_per_image\":%.0f,"
      "\"kernel_s_per_1000\":%.5f}\n",
      one.front()->name().c_str(), static_cast<long long>(images), io.c_str(),
      (process_seconds() - cpu) * per_thousand, static_cast<double>(images) / (now() - wall),
      static_cast<double>(bytes) * per_thousand / 1000, device.kernel_s());
  return 0;
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::runtime_error("RECORDS [DEVICE [EPOCHS [IO]]]");
    return penstock::bench::run(argv[1], argc > 2 ? argv[2] : "host:0",
                                argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 5,
                                argc > 4 ? argv[4] : "pread");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
