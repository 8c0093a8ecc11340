// Checkpoints: continuing to the bit, and what damaged files do.
#include "towers/checkpoint/checkpoint.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <filesystem>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/towers/arrays.h"
#include "tests/towers/twins.h"
#include "towers/checkpoint/run_folder.h"

namespace penstock::towers {
namespace checkpoint_test {

using penstock::test::as_bytes;
using penstock::test::expect_error;
using penstock::test::read_file;
using penstock::test::TempFolder;
using penstock::test::thrown_by;
using test::Hidden;
using test::maker;
using test::options_for;
using test::options_in;
using test::points;
using test::train;

TrainObserver nobody;

std::string header_file(const std::string& header, const std::string& data = {}) {
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(header.size() >> (8 * i) & 0xff));
  return file + header + data;
}

TEST(SafeTensors, AreReadBack) {
  const std::vector<float> values{1, -2, 3};
  const std::string bytes = "xyz";
  const std::vector<NamedTensor> tensors{
      {"a/b", DType::f32, {3, 1}, std::as_bytes(std::span(values))},
      {"none", DType::i64, {0}, {}},
      {"c", DType::u8, {3}, as_bytes(bytes)}};
  const std::string file = encode_safetensors(tensors, {{"k", "v\n\"\x01"}});
  EXPECT_EQ(file.size() % 8, (3 * 4 + 3) % 8U) << "values begin at a multiple of 8";
  const SafeTensors read(file);
  EXPECT_EQ(read.metadata().at("k"), "v\n\"\x01");
  ASSERT_EQ(read.tensors().size(), 3U);
  EXPECT_EQ(read.at("a/b").shape, Shape({3, 1}));
  EXPECT_TRUE(std::ranges::equal(read.at("a/b").bytes, tensors[0].bytes));
  EXPECT_TRUE(std::ranges::equal(read.at("c").bytes, tensors[2].bytes));
  expect_error(ErrorCode::not_found, "no tensor d", [&] { static_cast<void>(read.at("d")); });
}

TEST(SafeTensors, ManyNames) {
  constexpr int kNames = 100'000;
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < kNames; ++i) tensors.push_back({std::to_string(i), DType::u8, {0}, {}});
  const auto start = std::chrono::steady_clock::now();
  const SafeTensors read(encode_safetensors(tensors, {}));
  for (const NamedTensor& tensor : tensors) ASSERT_EQ(read.at(tensor.name).name, tensor.name);
  // By the square of their number it takes minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(SafeTensors, InvalidFiles) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& at) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + at +
           "}}";
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "too short"},
      {"1234567", "too short"},
      {std::string(8, '\xff'), "longer than"},
      {header_file("{}").substr(0, 9), "longer than"},
      {header_file("[]"), "does not begin with {"},
      {header_file(" {}"), "does not begin with {"},
      {header_file("{"), "not JSON"},
      {header_file(R"({"a":1,"a":2})"), "twice"},
      {header_file(R"({"a":{"b":{"c":{"d":{"e":{}}}}}})"), "nested"},
      {header_file(R"({"a":1})"), "incomplete"},
      {header_file(R"({"__metadata__":{"a":1}})"), "not all text"},
      {header_file(entry("F32", "[1]", "[0,4]")), "outside"},
      {header_file(entry("F32", "[1]", "[4,0]"), "1234"), "outside"},
      {header_file(entry("F32", "[2]", "[0,4]"), "1234"), "does not fit"},
      {header_file(entry("X9", "[1]", "[0,4]"), "1234"), "unknown dtype"},
      {header_file(entry("F32", "[-1]", "[0,4]"), "1234"), "not an integer"},
      {header_file(entry("F32", "[1.5]", "[0,4]"), "1234"), "not an integer"},
      {header_file(entry("F32", "[4294967296,4294967296,4]", "[0,0]")), "too large"},
      {header_file(entry("F32", "[9223372036854775808]", "[0,0]")), "too large"},
      {header_file(entry("F32", "[1,1,1,1,1,1,1]", "[0,4]"), "1234"), "too many"},
      {header_file(entry("F32", "[1]", "[0,4]"), "12345"), "behind the last"},
      {header_file(entry("F32", "[1]", "[4,8]"), "12345678"), "gap"},
      {header_file(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                   R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                   "123"),
       "overlap"}};
  for (const auto& c : cases)
    expect_error(ErrorCode::data_loss, c.second, [&] { SafeTensors read(c.first); });
}

TEST(Checkpoints, BitsOfAResumedRun) {
  for (const StrategyKind kind :
       {StrategyKind::replicated, StrategyKind::parameter_device, StrategyKind::spread}) {
    for (const FeedMode mode : {FeedMode::split, FeedMode::per_tower, FeedMode::sharded}) {
      const auto run = [&](const std::string& folder, std::uint64_t max_steps) {
        TrainOptions options = options_in(folder, max_steps);
        options.strategy.kind = kind;
        options.feed.mode = mode;
        return train(options);
      };
      const TrainResult whole = run("", 0);
      EXPECT_EQ(whole.steps, 48U);
      const TempFolder folder;
      // In mid-epoch, at an epoch's end, and off the checkpoints' rhythm.
      for (const std::uint64_t stop : {7U, 12U, 30U, 0U}) {
        const TrainResult part = run(folder.path(), stop);
        EXPECT_EQ(part.steps, stop == 0 ? 48U : stop);
        if (stop == 0) {
          EXPECT_EQ(part.digest, whole.digest);
          EXPECT_EQ(part.resumed_at, 30U);
          EXPECT_TRUE(
              std::equal(part.losses.begin(), part.losses.end(), whole.losses.begin() + 30));
        }
      }
      // A run that has ended has nothing left to do.
      EXPECT_EQ(run(folder.path(), 0).digest, whole.digest);
    }
  }
}

TEST(Checkpoints, ResumeOfTowersThatDoNotWait) {
  for (const FeedMode mode : {FeedMode::split, FeedMode::per_tower, FeedMode::sharded}) {
    const TempFolder folder;
    std::uint64_t elements = 0;
    for (std::uint64_t stop = 5; stop < 53; stop += 5) {
      TrainOptions options = options_in(folder.path(), stop > 48 ? 0 : stop);
      options.deterministic = false;
      options.strategy.kind = StrategyKind::async;
      options.feed.mode = mode;
      options.feed.slots = 1;
      options.feed.ahead = 0;
      options.checkpoint_every = 2;
      options.batch = 4;
      options.epochs = 1;
      const TrainResult result = train(options);
      EXPECT_EQ(result.steps, stop > 48 ? 50 : stop);
      elements += result.elements;
    }
    EXPECT_EQ(elements, 200U);
  }
}

TEST(Checkpoints, NewestTwoAndADamagedOne) {
  const TempFolder folder;
  train(options_in(folder.path(), 17));
  const std::string newest = folder / "step-000000000017.safetensors";
  const std::string before = folder / "step-000000000015.safetensors";
  ASSERT_TRUE(std::filesystem::exists(newest));
  ASSERT_TRUE(std::filesystem::exists(before));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2 + 1)
      << "a lock";
  const std::string bytes = read_file(newest);
  std::string damaged = bytes;
  damaged[bytes.size() / 2] = static_cast<char>(damaged[bytes.size() / 2] ^ 0x10);
  folder.write("step-000000000017.safetensors", damaged);
  const TrainResult result = train(options_in(folder.path(), 20));
  EXPECT_EQ(result.resumed_at, 15U);
  EXPECT_EQ(result.digest, train(options_in("", 20)).digest);
  folder.write("step-000000000015.safetensors", "x");
  folder.write("step-000000000020.safetensors", bytes.substr(0, bytes.size() - 1));
  expect_error(ErrorCode::data_loss, "every checkpoint",
               [&] { train(options_in(folder.path(), 20)); });
}

TEST(Checkpoints, NumberOfKeptOnes) {
  for (const int keep : {1, 2, 3, 7}) {
    const TempFolder folder;
    TrainOptions options = options_in(folder.path(), 25);  // checkpoints at 5, 10, 15, 20, 25
    options.checkpoints_kept = keep;
    train(options);
    std::vector<std::uint64_t> steps;
    for (const CheckpointFile& file : checkpoint_files(folder.path())) steps.push_back(file.step);
    std::vector<std::uint64_t> newest{5, 10, 15, 20, 25};
    newest.erase(newest.begin(), newest.end() - std::min(keep, 5));
    EXPECT_EQ(steps, newest) << keep;
  }
  expect_error(ErrorCode::invalid_argument, "at least one checkpoint", [] {
    const TempFolder folder;
    Checkpoints none(folder.path(), false, 0);
  });
}

TEST(Checkpoints, PlaceOfADamagedOne) {
  const TempFolder folder;
  const auto name = [&](int step) {
    std::string number = std::to_string(step);
    return folder / ("step-" + std::string(12 - number.size(), '0') + number + ".safetensors");
  };
  train(options_in(folder.path(), 17));
  for (const int step : {15, 17}) ASSERT_TRUE(std::filesystem::exists(name(step)));
  folder.write(std::filesystem::path(name(17)).filename().string(), "damaged");
  folder.write("step-000000000016.safetensors.partial", "left by a killed run");
  TrainOptions options = options_in(folder.path(), 18);
  EXPECT_EQ(train(options).resumed_at, 15U);
  EXPECT_TRUE(std::filesystem::exists(name(15))) << "the only whole one but the newest";
  EXPECT_FALSE(std::filesystem::exists(name(17)));
  EXPECT_TRUE(std::filesystem::exists(name(18)));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2 + 1)
      << "a lock";
  // Whichever of the two is damaged, the other serves.
  folder.write(std::filesystem::path(name(18)).filename().string(), "damaged");
  EXPECT_EQ(train(options_in(folder.path(), 20)).resumed_at, 15U);
}

TEST(Checkpoints, FlippedBytes) {
  const TempFolder folder;
  train(options_in(folder.path(), 5));
  const std::string name = "step-000000000005.safetensors";
  const std::string bytes = read_file(folder / name);
  Checkpoints checkpoints(folder.path());
  ASSERT_TRUE(checkpoints.newest());
  for (std::size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 300) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x01);
    folder.write(name, damaged);
    const std::optional<Error> error = thrown_by([&] { static_cast<void>(checkpoints.newest()); });
    ASSERT_TRUE(error) << at;
    EXPECT_EQ(error->code(), ErrorCode::data_loss) << at << error->what();
  }
}

TEST(Checkpoints, CheckpointsOfAnotherRun) {
  const TempFolder folder;
  TrainOptions first = options_in(folder.path(), 5);
  first.model = "mine";
  train(first);
  const auto refused = [&](const std::function<void(TrainOptions&)>& change,
                           const std::string& text) {
    TrainOptions options = first;
    options.max_steps = 10;
    change(options);
    expect_error(ErrorCode::invalid_argument, text, [&] { train(options); });
  };
  refused([](TrainOptions& o) { o.seed = 9; }, "whose seed is 0, not 9 (--seed)");
  refused([](TrainOptions& o) { o.batch = 4; }, "whose batch is 8, not 4 (--batch)");
  refused([](TrainOptions& o) { o.virtual_towers = 4; },
          "whose number of towers is 2, not 4 (--device)");
  refused([](TrainOptions& o) { o.threads = 2; }, "whose threads of a tower is 1, not 2");
  refused([](TrainOptions& o) { o.strategy.update.optimizer = make_optimizer("sgd"); }, "sgd");
  refused([](TrainOptions& o) { o.model = "other"; }, "whose model is mine, not other (--model)");
  refused([](TrainOptions& o) { o.feed.mode = FeedMode::split; },
          "whose feed mode is per_tower, not split (--feed)");
  refused([](TrainOptions& o) { o.feed.end = EpochEnd::pad; },
          "whose epoch end is drop, not pad (--epoch-end)");
  refused([](TrainOptions& o) { o.strategy.kind = StrategyKind::async; }, "not deterministic");
}

TEST(Checkpoints, ImpossibleFolder) {
  const TempFolder folder;
  folder.write("file", "x");
  expect_error(ErrorCode::unavailable, "can't make folder",
               [&] { Checkpoints checkpoints(folder / "file/sub"); });
}

TEST(Checkpoints, FolderInUse) {
  const TempFolder folder;
  {
    const Checkpoints first(folder.path());
    expect_error(
        ErrorCode::unavailable,
        "process " + std::to_string(::getpid()) + " keeps its checkpoints in " + folder.path(),
        [&] { Checkpoints second(folder.path()); });
  }
  const Checkpoints third(folder.path());
}

TEST(Export, WritesTheVariablesAlone) {
  const TempFolder folder;
  Trainer trainer(maker<Hidden>(), points(40), std::nullopt, options_for(1, 8));
  trainer.run(nobody);
  export_variables(trainer.variables(), folder / "model.safetensors");
  const SafeTensors file(read_file(folder / "model.safetensors"));
  EXPECT_EQ(file.tensors().size(), 4U);
  EXPECT_EQ(file.at("a/weights").shape, Shape({16, 4}));

  TrainOptions options = options_for(2, 8);
  options.strategy.update.schedule = Schedule::constant(0);
  options.initial_variables = folder / "model.safetensors";
  options.seed = 77;
  Trainer again(maker<Hidden>(), points(40), std::nullopt, options);
  EXPECT_EQ(again.run(nobody).digest, trainer.variables().digest());
  expect_error(ErrorCode::invalid_argument,
               "variable fc/weights is not in the file, which belongs to",
               [&] { Trainer other(maker<test::Linear>(), points(40), std::nullopt, options); });
}

/// The variables of a model in another type.
template <typename T, typename Make>
std::string file_of(const VariableStore& store, DType dtype, const Make& make) {
  std::deque<std::vector<T>> values;
  std::vector<NamedTensor> tensors;
  for (const Variable* variable : store.of(0)) {
    std::vector<T>& own = values.emplace_back();
    for (const float value : variable->value.values()) own.push_back(make(value));
    tensors.push_back(
        {variable->name, dtype, variable->value.shape(), std::as_bytes(std::span(own))});
  }
  return encode_safetensors(tensors, {});
}

TEST(Export, OtherFloats) {
  const TempFolder folder;
  Trainer trainer(maker<Hidden>(), points(40), std::nullopt, options_for(1, 8));
  const VariableStore& from = trainer.variables();
  const struct {
    const char* type;
    std::string file;
    double within;  // of the value
  } kCases[] = {{"f16", file_of<Half>(from, DType::f16, half_from_float), 0x1p-11},
                {"bf16", file_of<BFloat16>(from, DType::bf16, bfloat16_from_float), 0x1p-8},
                {"f64", file_of<double>(from, DType::f64, [](float v) { return double{v}; }), 0}};
  for (const auto& one : kCases) {
    const std::string path = folder.write(one.type, one.file);
    VariableStore into = test::host_store();
    const ModelPtr model = maker<Hidden>()(into.tower(0));
    into.pack();
    expect_error(ErrorCode::invalid_argument,
                 std::string("variable a/weights is f32, in the file ") + one.type +
                     "; --init-cast (cast_initial_variables) converts",
                 [&] { import_variables(into, path); });
    import_variables(into, path, true);
    for (std::size_t v = 0; v < from.of(0).size(); ++v) {
      const std::vector<float> wanted = test::list(from.of(0)[v]->value);
      const std::vector<float> got = test::list(into.of(0)[v]->value);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        ASSERT_LE(std::abs(got[i] - wanted[i]), one.within * std::abs(wanted[i]) + 1e-7)
            << one.type;
    }
    TrainOptions options = options_for(1, 8);
    options.initial_variables = path;
    options.cast_initial_variables = true;
    Trainer again(maker<Hidden>(), points(40), std::nullopt, options);
    EXPECT_EQ(again.variables().digest(), into.digest()) << one.type;
  }
  VariableStore into = test::host_store();
  const ModelPtr model = maker<Hidden>()(into.tower(0));
  into.pack();
  const auto refused = [&](const std::string& file, const char* text) {
    const std::string path = folder.write("wrong", file);
    expect_error(ErrorCode::invalid_argument, text, [&] { import_variables(into, path, true); });
  };
  refused(file_of<double>(from, DType::f64, [](float) { return 1e300; }),
          "a number beyond the range of f32");
  refused(file_of<std::int32_t>(from, DType::i32, [](float) { return 1; }),
          "is i32, not floating point");
}

}  // namespace checkpoint_test
}  // namespace penstock::towers
