// TFRecords of tf.Example: parses features by name, with their dtype, shape and default.
//
//     tfrecords [PATTERN KEY[:DTYPE]...]
//     tfrecords 'train-*.tfrecord' image/encoded image/class/label:i64
//
// Plain, gzip and zlib files are told apart by their contents. Without arguments it reads a file of
// three examples from memory, of which the third has no feature "stars".
//
// Prints:
//     {text: bytes [?], stars: i64 [?], size: f32 [?,2]}, 2 batches
//     text: a penstock (10 bytes), a flume (7 bytes)
//     stars: 5, 3
//     size: 1.5, 2, 0.25, 4
//     text: a weir (6 bytes)
//     stars: 0
//     size: 8, 0.5
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <penstock/penstock.h>

namespace ps = penstock;

namespace {

const char kThreeExamples[] =
    "40000000000000002817f4950a3e0a140a0473697a65120c120a0a080000c03f000000400a0e0a0573746172"
    "7312051a030a01050a160a0474657874120e0a0c0a0a612070656e73746f636b6f4ea1d23d00000000000000"
    "6049f1ec0a3b0a140a0473697a65120c120a0a080000803e000080400a0e0a05737461727312051a030a0103"
    "0a130a0474657874120b0a090a076120666c756d65cf93161d2c00000000000000f4aecc450a2a0a140a0473"
    "697a65120c120a0a08000000410000003f0a120a0474657874120a0a080a06612077656972a8c21a6a";

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// A feature without a default must be in every example: one that lacks it is an error there.
ps::Dataset three_examples() {
  ps::TFRecordOptions options;
  options.files = ps::make_memory_file_system({{"three.tfrecord", bytes_of(kThreeExamples)}});
  return ps::tfrecord({"three.tfrecord"}, options)
      .map_op(ps::parse_example({{.key = "text"},
                                 {.key = "stars",
                                  .dtype = ps::DType::i64,
                                  .default_value = ps::Tensor::scalar<std::int64_t>(0)},
                                 {.key = "size", .dtype = ps::DType::f32, .shape = {2}}}));
}

ps::Dataset examples(const std::string& pattern, const std::vector<std::string>& keys) {
  std::vector<ps::FeatureSpec> features;
  for (const std::string& text : keys) {
    const std::size_t colon = text.find(':');
    ps::FeatureSpec feature{.key = text.substr(0, colon)};
    if (colon != std::string::npos) feature.dtype = ps::dtype_from_name(text.substr(colon + 1));
    features.push_back(feature);
  }
  return ps::tfrecord({pattern}).map_op(ps::parse_example(features));
}

void print(const ps::Element& batch) {
  for (std::size_t c = 0; c < batch.size(); ++c) {
    std::printf("%s:", batch.name(c).c_str());
    for (std::int64_t i = 0; i < batch[c].volume(); ++i) {
      std::printf(i > 0 ? ", " : " ");
      switch (batch[c].dtype()) {
        case ps::DType::bytes: {
          const std::string_view text = batch[c].bytes_at(i);
          std::printf("%.*s (%zu bytes)", static_cast<int>(std::min<std::size_t>(text.size(), 20)),
                      text.data(), text.size());
          break;
        }
        case ps::DType::i64:
          std::printf("%lld", static_cast<long long>(
                                  batch[c].values<std::int64_t>()[static_cast<std::size_t>(i)]));
          break;
        default:
          std::printf("%g",
                      static_cast<double>(batch[c].values<float>()[static_cast<std::size_t>(i)]));
      }
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const ps::Dataset parsed =
      argc > 1 ? examples(argv[1], {argv + 2, argv + argc}) : three_examples();
  const ps::Dataset batches = parsed.batch(2);
  const std::int64_t count = batches.cardinality();
  std::printf("%s, %s batches\n", batches.spec().to_string().c_str(),
              count >= 0 ? std::to_string(count).c_str() : "an unknown number of");
  ps::Iterator iterator = batches.take(5).iterate();
  // Throws the error where one comes in place of a batch.
  for (const ps::Element& element : iterator) print(element);
} catch (const ps::Error& error) {
  std::fprintf(stderr, "tfrecords: %s\n", error.what());
  return 1;
}
