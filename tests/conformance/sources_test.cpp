// One suite over every source, read directly: any order and threads give the same, records are
// where it says, what is damaged or can't be read fails alone, nothing else than the records ever
// comes.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <thread>

#include "pipeline/io/fault.h"
#include "pipeline/io/memory.h"
#include "pipeline/sources/parallel.h"
#include "pipeline/stage/node.h"
#include "tests/conformance/source_suite.h"
#include "tests/support/errors.h"
#include "tests/support/hooked_files.h"

namespace penstock {
namespace {

using test::outcome_of;
using test::read_indices;
using test::read_source;
using test::ReadOutcome;
using test::SourceCase;

constexpr std::size_t kRecords = 11;
constexpr std::size_t kBad = 6;  // in the second shard, with records around it

class Sources : public test::SourceSuite {
 protected:
  /// The outcomes are the records, but where `failed` says. Returns how many failed.
  std::size_t expect_records(const std::vector<ReadOutcome>& outcomes,
                             const std::function<bool(std::size_t)>& may_fail) const {
    std::size_t failed = 0;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (outcomes[i].error) {
        ++failed;
        EXPECT_TRUE(may_fail(i)) << i << ": " << outcomes[i].error->what();
      } else if (GetParam().value) {
        EXPECT_EQ(outcomes[i].text(), GetParam().value(i)) << i;
      }
    }
    return failed;
  }
  static bool nothing(std::size_t) { return false; }

  /// What came is the records in their order, but for errors, each of which is in the place of one
  /// record, or of all that were left in its shard. Returns how many errors there were.
  std::size_t expect_what_is_left(const std::vector<ReadOutcome>& outcomes,
                                  const std::vector<Provenance>& places) const {
    std::size_t all = 0;
    std::size_t errors = 0;  // since the last record
    std::size_t next = 0;    // the record behind that
    const auto may_be_next = [&](std::size_t i) {
      return i == next + errors ||
             (errors > 0 && i > 0 && i < places.size() && places[i].shard != places[i - 1].shard);
    };
    for (const ReadOutcome& outcome : outcomes) {
      if (outcome.error) {
        ++errors;
        ++all;
        continue;
      }
      std::size_t i = next;
      while (i < places.size() && !(may_be_next(i) && outcome.text() == GetParam().value(i))) ++i;
      EXPECT_LT(i, places.size()) << outcome.text() << " behind " << errors << " errors";
      errors = 0;
      next = i + 1;
    }
    EXPECT_TRUE(errors > 0 || next == places.size());
    return all;
  }
};

TEST_P(Sources, GiveEveryRecordInAnyOrderAndGroups) {
  const SourcePtr source = open(kRecords);
  EXPECT_EQ(source->spec().to_string(), GetParam().spec);
  const std::vector<ReadOutcome> all = read_source(*source);
  ASSERT_EQ(all.size(), kRecords);
  EXPECT_EQ(expect_records(all, nothing), 0);
  const std::vector<ReadOutcome> again = read_source(*open(kRecords));
  for (std::size_t i = 0; i < kRecords; ++i) EXPECT_EQ(again.at(i).values, all[i].values) << i;
  if (!source->size()) return;
  EXPECT_EQ(*source->size(), kRecords);
  for (const std::size_t group : {1, 2, 7, 64}) {
    for (std::size_t from = 0; from < 64; from += group) {
      std::vector<std::uint64_t> indices;
      for (std::size_t k = 0; k < group; ++k) indices.push_back((from + k) * 7 % kRecords);
      const std::vector<ReadOutcome> some = read_indices(*source, indices);
      for (std::size_t k = 0; k < group; ++k)
        EXPECT_EQ(some[k].values, all[indices[k]].values) << indices[k] << " of " << group;
    }
  }
}

TEST_P(Sources, OfNoneAndOfOneRecord) {
  const SourcePtr one = open(1);
  EXPECT_EQ(one->size().value_or(1), 1);
  const std::vector<ReadOutcome> outcomes = read_source(*one);
  EXPECT_EQ(outcomes.size(), 1);
  EXPECT_EQ(expect_records(outcomes, nothing), 0);
  if (GetParam().empty) {
    test::expect_error(*GetParam().empty, "", [&] { open(0); });
    return;
  }
  const SourcePtr none = open(0);
  EXPECT_EQ(none->size().value_or(0), 0);
  EXPECT_TRUE(read_source(*none).empty());
}

TEST_P(Sources, RecordsSkippedInStreams) {
  const SourcePtr source = open(kRecords);
  if (source->size()) return;
  const std::vector<ReadOutcome> all = read_source(*source);
  for (std::size_t skipped = 0; skipped <= kRecords + 1; ++skipped) {
    const std::unique_ptr<RecordStream> stream = source->stream();
    test::HeapContext context;
    stream->skip(skipped, context);
    for (std::size_t i = skipped; i < kRecords; ++i) {
      ReadItem item;
      ASSERT_TRUE(stream->next(item, context)) << skipped;
      EXPECT_EQ(item.index, i);
      EXPECT_EQ(outcome_of(item).values, all[i].values);
    }
    ReadItem item;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(stream->next(item, context)) << skipped;
  }
}

TEST_P(Sources, SayWhereTheRecordsLie) {
  const SourcePtr source = open(kRecords);
  const std::vector<Provenance> places = locate_all(*source);
  ASSERT_EQ(places.size(), kRecords);
  for (std::size_t i = 0; i < kRecords; ++i) {
    const Provenance& place = places[i];
    EXPECT_EQ(place.index, static_cast<std::int64_t>(i));
    EXPECT_FALSE(place.shard.empty());
    if (!GetParam().files) continue;
    ASSERT_TRUE(contents_.contains(place.shard)) << place.shard;
    ASSERT_GE(place.offset, 0);
    if (!GetParam().plain) continue;
    const std::string& file = contents_[place.shard];
    const std::string bytes =
        file.substr(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.length));
    EXPECT_NE(bytes.find(GetParam().record(i)), std::string::npos) << place.to_string();
    EXPECT_EQ(bytes.size(), static_cast<std::size_t>(place.length));
    if (i == 0 || places[i - 1].shard != place.shard) continue;
    EXPECT_GE(place.offset, places[i - 1].offset + places[i - 1].length - GetParam().shared)
        << place.to_string();
  }
}

TEST_P(Sources, TakeNoMoreThanTheySay) {
  const SourcePtr source = open(kRecords);
  if (!source->size()) return;
  std::vector<std::uint64_t> all(kRecords);
  std::iota(all.begin(), all.end(), 0);
  std::uint64_t sum = 0;
  for (const std::uint64_t i : all) {
    test::HeapContext context;
    ReadItem item;
    item.index = i;
    source->read({&item, 1}, context);
    EXPECT_LE(context.allocated_bytes, source->record_bytes(i)) << i;
    sum += source->record_bytes(i);
  }
  test::HeapContext context;
  std::vector<ReadItem> items(kRecords);
  for (const std::uint64_t i : all) items[i].index = i;
  source->read(items, context);
  EXPECT_LE(context.allocated_bytes, sum);
  // Each record of this CSV has a field with doubled quotes, which takes a buffer of its own.
  if (source->shares_buffers() && GetParam().name != "csv") {
    EXPECT_LE(context.allocations, kRecords / 2);
  }
}

TEST_P(Sources, GiveTheSameToSeveralThreads) {
  const SourcePtr source = open(kRecords);
  const std::vector<ReadOutcome> all = read_source(*source);
  std::vector<std::jthread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t round = 0; round < 20; ++round) {
        if (!source->size()) {
          const std::vector<ReadOutcome> mine = read_source(*source);
          for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_EQ(mine[i].values, all[i].values);
          continue;
        }
        const std::uint64_t a = (thread + 3 * round) % kRecords;
        const std::uint64_t b = (thread * 5 + round) % kRecords;
        const std::vector<ReadOutcome> mine = read_indices(*source, {a, b, a});
        EXPECT_EQ(mine[0].values, all[a].values);
        EXPECT_EQ(mine[1].values, all[b].values);
        EXPECT_EQ(mine[2].values, all[a].values);
      }
    });
  }
}

TEST_P(Sources, GiveTheSameAsColumnsAndTexts) {
  const SourcePtr source = open(kRecords, kBad);
  const std::vector<ReadOutcome> all = read_source(*source);
  std::vector<std::uint64_t> indices{7, 6, 0, 10, 7};
  if (source->columnar()) {
    const Spec spec = source->spec();
    Element columns;
    for (std::size_t c = 0; c < spec.size(); ++c) {
      const Shape shape = spec[c].shape.prepend(static_cast<std::int64_t>(indices.size()));
      columns.set(spec[c].name, Tensor::allocate(spec[c].dtype, shape));
    }
    source->read_columns(indices, columns);
    const std::size_t size = all[0].values.size();
    for (std::size_t k = 0; k < indices.size(); ++k) {
      ReadItem item;
      for (std::size_t c = 0; c < size; ++c)
        item.element.set(spec[c].name, columns[c][static_cast<std::int64_t>(k)]);
      EXPECT_EQ(outcome_of(item).values, all[indices[k]].values);
    }
  }
  if (source->textual()) {
    std::vector<std::string_view> texts(indices.size());
    std::vector<BufferPtr> owners(indices.size());
    std::vector<std::size_t> left;
    test::HeapContext context;
    source->read_texts(indices, texts, owners, left, context);
    for (std::size_t k = 0; k < indices.size(); ++k) {
      const bool is_left = std::find(left.begin(), left.end(), k) != left.end();
      EXPECT_EQ(is_left, all[indices[k]].error.has_value()) << k;
      if (!is_left) {
        EXPECT_EQ(texts[k], all[indices[k]].text());
      }
    }
  }
}

TEST_P(Sources, FailADamagedRecordAlone) {
  if (!GetParam().damage) return;
  for (const std::size_t bad : {std::size_t{0}, kBad, kRecords - 1}) {
    const std::vector<ReadOutcome> outcomes = read_source(*open(kRecords, bad));
    ASSERT_EQ(outcomes.size(), kRecords) << bad;
    EXPECT_EQ(expect_records(outcomes, [bad](std::size_t i) { return i == bad; }), 1) << bad;
    EXPECT_EQ(outcomes[bad].error->code(), *GetParam().damage);
  }
}

TEST_P(Sources, FailARecordThatCannotBeReadAlone) {
  if (!GetParam().files || !GetParam().plain) return;
  std::optional<Provenance> bad;
  hook_ = [&bad](const std::string& path, const ReadRequest& request) -> Status {
    if (!bad || path != bad->shard) return {};
    // The bytes that no other record has.
    const auto begin = static_cast<std::uint64_t>(bad->offset + GetParam().shared);
    const auto end = static_cast<std::uint64_t>(bad->offset + bad->length - GetParam().shared);
    if (request.offset >= end) return {};
    if (request.offset + request.size <= begin) return {};
    return Status(ErrorCode::unavailable, "a bad sector");
  };
  const SourcePtr source = open(kRecords);
  for (const std::size_t i : {std::size_t{0}, kBad, kRecords - 1}) {
    bad = source->locate(i);
    const std::vector<ReadOutcome> outcomes = read_source(*source);
    ASSERT_EQ(outcomes.size(), kRecords);
    EXPECT_EQ(expect_records(outcomes, [i](std::size_t k) { return k == i; }), 1) << i;
    EXPECT_EQ(outcomes[i].error->code(), ErrorCode::unavailable);
  }
  bad.reset();
  EXPECT_EQ(expect_records(read_source(*source), nothing), 0);
}

TEST_P(Sources, GiveNoMixtureWithAFileThatReplacesAnother) {
  if (!GetParam().files || GetParam().loads) return;
  const SourcePtr source = open(kRecords);
  const std::vector<Provenance> places = locate_all(*source);
  const std::string replaced = places[0].shard;
  std::string other = contents_[replaced];
  other.back() = static_cast<char>(other.back() ^ 1);
  other[other.size() / 2] = static_cast<char>(other[other.size() / 2] ^ 1);
  files_->add(replaced, other);
  const std::vector<ReadOutcome> outcomes = read_source(*source);
  EXPECT_GT(expect_what_is_left(outcomes, places), 0);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (source->size()) {
      EXPECT_EQ(outcomes[i].error.has_value(), places[i].shard == replaced) << i;
    }
    if (!outcomes[i].error) continue;
    EXPECT_EQ(outcomes[i].error->code(), ErrorCode::changed);
    EXPECT_NE(outcomes[i].error->cause().find("changed"), std::string::npos);
  }
}

TEST_P(Sources, GiveNothingWrongWhateverFails) {
  if (!GetParam().files) return;
  first_retry_wait = std::chrono::milliseconds(0);  // thousands of reads fail
  for (const std::uint64_t count : {1, 1000}) {
    std::uint64_t injected = 1;
    for (std::uint64_t nth = 1; injected > 0; nth += count == 1 ? 1 : 1 + nth / 3) {
      ASSERT_LT(nth, 1000);
      const std::vector<Provenance> places = locate_all(*open(kRecords));
      const auto files = std::make_shared<FaultFileSystem>(
          files_, FaultOptions{.fail_nth = nth, .fail_count = count});
      std::size_t failed = 0;
      try {
        const std::vector<ReadOutcome> outcomes = read_source(*open_with(files));
        failed = expect_what_is_left(outcomes, places);
        for (const ReadOutcome& outcome : outcomes) {
          if (outcome.error) {
            EXPECT_EQ(outcome.error->code(), ErrorCode::unavailable);
          }
        }
      } catch (const Error& error) {
        // What a data set needs to be opened is read again.
        EXPECT_EQ(count, 1000) << error.what();
        EXPECT_EQ(error.code(), ErrorCode::unavailable);
        EXPECT_FALSE(error.where().shard.empty());
        ++failed;
      }
      injected = files->injected();
      if (count > 1) {
        EXPECT_EQ(failed > 0, injected > 0) << nth;
      }
    }
  }
}

TEST_P(Sources, GiveTheSameOfEveryFileSystemAndInAnyParts) {
  if (!GetParam().files) return;
  const std::vector<ReadOutcome> all = read_source(*open(kRecords));
  const auto expect_same = [&](const SourcePtr& source, const std::string& what) {
    const std::vector<ReadOutcome> outcomes = read_source(*source);
    ASSERT_EQ(outcomes.size(), kRecords) << what;
    for (std::size_t i = 0; i < kRecords; ++i) EXPECT_EQ(outcomes[i].values, all[i].values) << what;
  };
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    expect_same(open_with(std::make_shared<FaultFileSystem>(
                    files_, FaultOptions{.seed = seed, .split = true})),
                "in parts");
  }
  const test::TempFolder folder;
  for (const auto& [path, bytes] : contents_) folder.write(path, bytes);
  for (const char* name : {"pread", "io_uring", "mmap"})
    expect_same(open_with(make_file_system(name), folder.path()), name);
}

TEST_P(Sources, DescribeWhatTheyHold) {
  const auto described = [&](std::size_t count) {
    Description description;
    open(count)->describe(description);
    return description.entries();
  };
  EXPECT_EQ(described(kRecords), described(kRecords));
  if (open(1)->deterministic()) {
    EXPECT_NE(described(kRecords), described(kRecords - 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, Sources, ::testing::ValuesIn(test::sources()),
                         test::SourceSuite::name_of);

}  // namespace
}  // namespace penstock
