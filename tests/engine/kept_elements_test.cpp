// What a cache keeps in memory comes back as it was, and the budget is charged for all of it.
#include "pipeline/stages/kept_elements.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/engine/memory/memory.h"
#include "pipeline/sources/mapping.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace penstock {
namespace kept_elements_test {

class Budget final : public ReadContext {
 public:
  explicit Budget(std::uint64_t bytes)
      : memory(std::make_shared<Memory>(bytes, Allocator::heap())) {}
  BufferPtr allocate(std::size_t bytes) override {
    std::uint64_t promised = 0;
    BufferPtr buffer = memory->allocate(bytes, promised);
    if (!buffer) throw memory->no_room_for(bytes);
    return buffer;
  }
  /// Returns the bytes in use.
  std::uint64_t charged() const { return memory->limit() - memory->room(); }

  const std::shared_ptr<Memory> memory;
};

Tensor tensor_in(Budget& budget, DType dtype, const Shape& shape, int fill) {
  const auto bytes = static_cast<std::size_t>(shape.volume()) * size_of(dtype);
  const BufferPtr buffer = budget.allocate(bytes);
  std::memset(buffer->data(), fill, bytes);
  return {dtype, shape, buffer->data(), buffer};
}

std::string text_of(const Tensor& tensor) {
  std::string text = std::string(name_of(tensor.dtype())) + tensor.shape().to_string();
  const Tensor values = tensor.contiguous() ? tensor : tensor.clone();
  for (std::int64_t i = 0; values.dtype() == DType::bytes && i < values.volume(); ++i)
    text += " '" + std::string(values.bytes_at(i)) + "'";
  if (values.dtype() != DType::bytes)
    text.append(reinterpret_cast<const char*>(values.data()), values.nbytes());
  return text;
}

std::string text_of(const Element& element) {
  std::string text = std::to_string(element.valid_rows);
  for (std::size_t i = 0; i < element.size(); ++i)
    text += ", " + element.name(i) + ": " + text_of(element[i]);
  return text;
}

/// Returns elements of every kind. Their buffers are in the budget.
std::vector<Element> elements_in(Budget& budget) {
  const std::vector<std::string_view> words{"a", "", "long enough for no tensor to hold it inline"};
  const Tensor matrix = tensor_in(budget, DType::f32, {8, 8}, 7);
  const Tensor image = tensor_in(budget, DType::u8, {40, 50, 3}, 9);
  std::vector<Element> all(2);
  all[1].valid_rows = 3;
  all.push_back(Element({{"x", Tensor::scalar<std::int64_t>(4)}}));
  all.push_back(Element({{"x", Tensor::scalar<float>(4)}, {"m", matrix}, {"i", image}}));
  all.push_back(Element({{"text", Tensor::copy_bytes("a line of text")}}));
  all.push_back(Element({{"text", Tensor::copy_bytes("")}}));
  all.push_back(Element({{"text", Tensor::copy_bytes(std::string(3000, 'x'))}}));
  all.push_back(Element({{"words", Tensor::of_bytes(words)}}));
  all.push_back(Element({{"words", Tensor::of_bytes(std::span(words).first(2))}}));
  all.push_back(Element({{"none", Tensor::of<float>({0, 3}, std::span<const float>())}}));
  all.push_back(Element({{"part", matrix.slice(1, 1, 4)}, {"rows", image.slice(0, 2, 3)}}));
  all.push_back(Element({{"a", matrix},
                         {"b", Tensor::scalar<std::uint8_t>(1)},
                         {"c", matrix[3]},
                         {"d", Tensor::of<double>({3}, {1, 2, 3})},
                         {"e", image},
                         {"f", Tensor::of<double>({9}, {1, 2, 3, 4, 5, 6, 7, 8, 9})}}));
  return all;
}

void keep(KeptElements& kept, std::uint64_t ordinal, const Element& element) {
  const Ref<Payload> payload = Payload::make(element);
  payload->index = ordinal + 1;
  payload->offset = static_cast<std::int64_t>(ordinal) + 2;
  payload->shard = std::make_shared<const std::string>("shard " + std::to_string(ordinal));
  kept.add(ordinal, *payload);
}

TEST(KeptElements, ComeBackAsTheyWere) {
  Budget budget(1 << 20);
  std::vector<std::string> expected;
  {
    KeptElements kept(budget);
    constexpr std::size_t kRounds = 40;  // in several blocks
    for (std::size_t round = 0; round < kRounds; ++round) {
      for (const Element& element : elements_in(budget)) {
        keep(kept, expected.size(), element);
        expected.push_back(text_of(element));
      }
    }
    ASSERT_EQ(kept.size(), expected.size());
    KeptElements::Place place;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      KeptElements::Place found = kept.find(i);
      EXPECT_EQ(found.block, place.block);
      EXPECT_EQ(found.offset, place.offset);
      const ElementRef item = kept.next(place);
      EXPECT_EQ(item.ordinal, i);
      EXPECT_EQ(text_of(item.payload->element), expected[i]);
      EXPECT_EQ(item.payload->index, i + 1);
      EXPECT_EQ(item.payload->offset, static_cast<std::int64_t>(i) + 2);
      EXPECT_EQ(*item.payload->shard, "shard " + std::to_string(i));
    }
    const KeptElements::Place end = kept.find(expected.size());
    EXPECT_EQ(end.block, place.block);
    EXPECT_EQ(end.offset, place.offset);
    EXPECT_GT(place.block, 4U);
  }
  EXPECT_EQ(budget.charged(), 0U);
}

TEST(KeptElements, MayGoBeforeWhatWasReadFromThem) {
  Budget budget(1 << 20);
  std::vector<ElementRef> read;
  std::vector<std::string> expected;
  {
    KeptElements kept(budget);
    for (const Element& element : elements_in(budget)) {
      keep(kept, expected.size(), element);
      expected.push_back(text_of(element));
    }
    KeptElements::Place place;
    while (read.size() < expected.size()) read.push_back(kept.next(place));
  }
  for (std::size_t i = 0; i < read.size(); ++i)
    EXPECT_EQ(text_of(read[i].payload->element), expected[i]);
  EXPECT_GT(budget.charged(), 0U);
  read.clear();
  EXPECT_EQ(budget.charged(), 0U);
}

// Small values are copied, so that a few bytes never keep a large buffer.
TEST(KeptElements, KeepNoBuffersOfSmallTensors) {
  const struct {
    std::string what;
    std::int64_t bytes;
    std::uint64_t least, most;  // bytes charged for each of 1,000
  } kFacts[] = {{"in the tensor", 48, 208, 208 + 208 / 4},
                {"copied", 49, 272, 272 + 272 / 4},
                {"copied, the most", 1024, 1232, 1232 + 1232 / 4},
                {"as they are", 1025, 208 + 1152, 208 + 1152 + 208 / 4}};
  for (const auto& fact : kFacts) {
    SCOPED_TRACE(fact.what);
    Budget budget(4 << 20);
    KeptElements kept(budget);
    for (std::uint64_t i = 0; i < 1'000; ++i) {
      const Tensor bytes = tensor_in(budget, DType::u8, {fact.bytes}, 5);
      const bool small = fact.bytes <= std::int64_t{Tensor::kInlineBytes};
      keep(kept, i, Element({{"x", small ? bytes.clone() : bytes}}));
    }
    EXPECT_GE(budget.charged(), 1'000 * fact.least);
    EXPECT_LE(budget.charged(), 1'000 * fact.most);
    EXPECT_LE(kept.bytes(), budget.charged());
    EXPECT_GE(kept.bytes(), 1'000 * fact.least - 1'000 * std::uint64_t{127});
  }
}

// A copy would be taken for what the file held when it was checked.
TEST(KeptElements, StayInMappedFiles) {
  const test::TempFolder folder;
  const std::string path = folder.write("bytes", std::string(100, 'x'));
  const std::shared_ptr<File> file = make_file_system("mmap")->open(path);
  const BufferPtr mapping(new Mapping(file, file->info()));
  ASSERT_NE(mapping->mapping(), nullptr);
  Budget budget(1 << 20);
  KeptElements kept(budget);
  keep(kept, 0, Element({{"x", Tensor(DType::u8, {100}, mapping->data(), mapping)}}));
  keep(kept, 1, Element({{"x", Tensor::bytes("xxx", mapping)}}));
  KeptElements::Place place;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(kept.next(place).payload->element["x"].owner(), mapping);
}

TEST(KeptElements, WithoutRoom) {
  const Element element({{"x", Tensor::scalar<std::int64_t>(4)}});
  for (std::uint64_t bytes = 0; bytes < 40'000; bytes += 1'000) {
    SCOPED_TRACE(bytes);
    Budget budget(bytes);
    {
      KeptElements kept(budget);
      std::uint64_t count = 0;
      try {
        for (;; ++count) keep(kept, count, element);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
      }
      for (int again = 0; again < 100; ++again)
        test::expect_error(ErrorCode::resource_exhausted, "memory budget",
                           [&] { keep(kept, count, element); });
      EXPECT_EQ(kept.size(), count);
      KeptElements::Place place;
      for (std::uint64_t i = 0; i < count; ++i) EXPECT_EQ(kept.next(place).ordinal, i);
    }
    EXPECT_EQ(budget.charged(), 0U);
  }
}

}  // namespace kept_elements_test
}  // namespace penstock
