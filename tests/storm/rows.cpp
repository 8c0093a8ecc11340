#include "tests/storm/rows.h"

#include <filesystem>
#include <fstream>
#include <optional>

#include <penstock/feed.h>
#include <penstock/image_records.h>
#include <penstock/penstock.h>

#include "pipeline/jpeg/decoder.h"
#include "staging/host/host_device.h"
#include "tests/support/deflate.h"
#include "tests/support/files.h"
#include "tests/support/images.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"
#include "tests/towers/twins.h"

namespace penstock::storm {
namespace {

constexpr int kImages = 26;
constexpr int kRecords = 40;
constexpr long kMostErrors = 1000;

using Bytes = std::vector<std::byte>;

/// The batches of all epochs.
template <typename Build>
void consume(Delivered& out, Build build) {
  try {
    const Dataset dataset = build();
    Iterator iterator = dataset.iterate({.seed = 3, .threads = 2, .memory_bytes = 32 << 20});
    while (out.errors() < kMostErrors) {
      Next next = iterator.next();
      if (next.is_end()) break;
      if (next.is_error()) {
        out.error();
      } else {
        out.element(*next);
      }
    }
  } catch (const std::exception&) {
    out.error();
  }
}

Dataset cropped(const Dataset& images) {
  return images.shuffle()
      .map_op(decode_image().random_resized_crop(32).random_flip().normalize().op())
      .batch(8);
}

template <typename Open>
void consume_images(Delivered& out, jpeg::Backend backend, Open open) {
  jpeg::choose(backend);
  consume(out, [&] { return cropped(open()); });
}

ImagesOptions without_index() {
  ImagesOptions options;
  options.index_folder = "-";
  return options;
}

void own_jpegs(const std::string& folder, Delivered& out) {
  consume_images(out, jpeg::Backend::own,
                 [&] { return images(folder + "/jpeg", without_index()); });
}

void library_jpegs(const std::string& folder, Delivered& out) {
  consume_images(out, jpeg::Backend::libjpeg_turbo,
                 [&] { return images(folder + "/jpeg", without_index()); });
}

void coefficient_records(const std::string& folder, Delivered& out) {
  consume_images(out, jpeg::Backend::own,
                 [&] { return image_records({folder + "/coefficients.pnr"}, without_index()); });
}

void indexed_records(const std::string& folder, Delivered& out) {
  consume_images(out, jpeg::Backend::own,
                 [&] { return image_records({folder + "/indexed.pnr"}, without_index()); });
}

void pngs(const std::string& folder, Delivered& out) {
  consume_images(out, jpeg::Backend::own, [&] { return images(folder + "/png", without_index()); });
}

void tfrecords(const std::string& folder, Delivered& out) {
  TFRecordOptions options;
  options.index_folder = "-";
  consume(out, [&] {
    return tfrecord({folder + "/plain.tfrecord"}, options)
        .shuffle()
        .concatenate(tfrecord({folder + "/packed.tfrecord.gz"}, options))
        .batch(5);
  });
}

void tars(const std::string& folder, Delivered& out) {
  TarOptions options;
  options.index_folder = "-";
  consume(out, [&] { return tar({folder + "/*.tar"}, options).shuffle({.buffer = 9}).batch(5); });
}

void stages(const std::string&, Delivered& out) {
  const auto add = [](Element element) {
    element["value"] = Tensor::scalar(3 * element["value"].item<std::int64_t>() + 1);
    return element;
  };
  consume(out, [&] {
    return range(60).map(add).cache().repeat(2).shuffle({.buffer = 16}).window(3).batch(4);
  });
}

void feed(const std::string& folder, Delivered& out) {
  jpeg::choose(jpeg::Backend::own);
  try {
    std::vector<DevicePtr> devices;
    for (int i = 0; i < 2; ++i) devices.push_back(HostDevice::make({.index = i, .unified = false}));
    FeedOptions options;
    options.run = {.seed = 3, .epochs = 2, .threads = 2, .memory_bytes = 32 << 20};
    options.watchdog_s = 10;
    options.max_bytes = 1 << 16;
    const Dataset dataset = images(folder + "/jpeg", without_index())
                                .map_op(decode_image().random_resized_crop(32).op())
                                .batch(4);
    Feed feed(dataset, devices, options);
    for (int tower = 0; !feed.ended(tower); tower = 1 - tower) {
      const std::optional<StagedBatch> batch = feed.next(tower);
      if (!batch) continue;
      batch->synchronize();
      for (std::size_t c = 0; c < batch->size(); ++c) {
        const DeviceTensor& tensor = batch->at(c);
        if (tensor.dtype != DType::bytes) out.row(Delivered::mix(c, tensor.data, tensor.nbytes()));
      }
      out.end_of_batch();
    }
  } catch (const std::exception&) {
    out.error();
  }
}

/// Writes down the loss of each step.
class Steps final : public towers::TrainObserver {
 public:
  explicit Steps(Delivered& out) : out_(out) {}
  void on_step(const towers::StepReport& report) override {
    out_.row(Delivered::mix(report.step, &report.loss, sizeof(report.loss)));
    out_.end_of_batch();
  }

 private:
  Delivered& out_;
};

void trainer(const std::string&, Delivered& out) {
  try {
    towers::TrainOptions options = towers::test::options_for(2, 8);
    options.deterministic = true;
    options.strategy.timeout_s = 10;
    towers::Trainer trainer(towers::test::maker<towers::test::Hidden>(),
                            towers::test::points(64).shuffle(), std::nullopt, options);
    Steps steps(out);
    const towers::TrainResult result = trainer.run(steps);
    out.row(Delivered::mix(0, &result.digest, sizeof(result.digest)));
  } catch (const std::exception&) {
    out.error();
  }
}

void write(const std::string& path, std::string_view bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

Bytes jpeg_of(int i) {
  const test::Pixels pixels =
      test::make_pixels(70 + 13 * (i % 4), 60 + 17 * (i % 3), i % 7 == 6 ? 1 : 3, i + 1U);
  return test::make_jpeg(pixels, {.quality = 60 + i % 5 * 8,
                                  .horizontal = 1 + i % 2,
                                  .vertical = 1 + i / 2 % 2,
                                  .progressive = i % 9 == 8});
}

Bytes png_of(int i) {
  const test::Pixels pixels = test::make_pixels(50 + i, 80 - i, 3, i + 1U);
  return test::make_png(pixels.height, pixels.width, pixels.values, {.interlaced = i % 3 == 2});
}

}  // namespace

std::vector<Row> rows() {
  return {{"own_jpegs", own_jpegs},
          {"library_jpegs", library_jpegs},
          {"coefficient_records", coefficient_records},
          {"indexed_records", indexed_records},
          {"pngs", pngs},
          {"tfrecords", tfrecords},
          {"tars", tars},
          {"stages", stages},
          {"feed", feed},
          {"trainer", trainer}};
}

void write_files(const std::string& folder) {
  std::vector<std::string> plain;
  std::vector<std::string> packed;
  std::string archive;
  for (int i = 0; i < kImages; ++i) {
    const std::string name = std::to_string(i % 3) + "/" + std::to_string(100 + i);
    write(folder + "/jpeg/" + name + ".jpg", test::as_text(jpeg_of(i)));
    write(folder + "/png/" + name + ".png", test::as_text(png_of(i)));
  }
  for (int i = 0; i < kRecords; ++i) {
    const std::string bytes = test::noise(200 + static_cast<std::size_t>(i * 37 % 300), i + 1U);
    (i % 2 == 0 ? plain : packed).push_back(bytes);
    const std::string name = "sample-" + std::to_string(100 + i);
    archive += test::tar_member(name + ".bin", bytes);
    archive += test::tar_member(name + ".cls", std::to_string(i % 4));
  }
  write(folder + "/plain.tfrecord", test::tfrecords_of(plain));
  write(folder + "/packed.tfrecord.gz", test::gzip(test::tfrecords_of(packed)));
  write(folder + "/samples.tar", archive + test::tar_end());
  for (const auto& [kind, name] : {std::pair(ImageRecordKind::coefficients, "coefficients"),
                                   std::pair(ImageRecordKind::indexed, "indexed")}) {
    ImagePackOptions options;
    options.kind = kind;
    options.index_folder = "-";
    static_cast<void>(pack_images(folder + "/jpeg", folder + "/" + name + ".pnr", options));
  }
}

}  // namespace penstock::storm
