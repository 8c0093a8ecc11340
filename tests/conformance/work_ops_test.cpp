// One suite over every work op: what it infers is what it gives, whatever the groups, the threads
// and the place of the result, a bad element fails alone, random numbers are the element's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <thread>

#include <penstock/internal/crc32c.h>

#include "tests/conformance/work_ops.h"
#include "tests/support/context.h"

namespace penstock {
namespace work_ops_test {

using test::HeapContext;
using test::WorkOpCase;

constexpr std::size_t kElements = 64;

std::uint64_t ordinal_of(std::size_t i) {
  return mix_path(7, i);
}

std::string text_of(const Tensor& tensor) {
  std::string text = std::string(name_of(tensor.dtype())) + tensor.shape().to_string() + ":";
  if (tensor.dtype() == DType::bytes) {
    for (std::int64_t i = 0; i < tensor.volume(); ++i)
      text += std::to_string(crc32c(test::as_bytes(tensor.bytes_at(i)))) + ",";
    return text;
  }
  const Tensor flat = tensor.contiguous() ? tensor : tensor.clone();
  // Of larger ones their checksum, so that what differs can be read.
  const std::span<const std::byte> bytes(flat.data(), flat.nbytes());
  if (bytes.size() > 32) return text + std::to_string(crc32c(bytes));
  for (const std::byte byte : bytes) text += std::to_string(std::to_integer<int>(byte)) + ",";
  return text;
}

/// All that an op may have changed of an item, or its error.
std::string outcome_of(const WorkItem& item) {
  if (!item.status.ok())
    return std::string(name_of(item.status.error().code())) + ": " + item.status.error().cause();
  std::string text = item.keep ? "" : "dropped ";
  text += std::to_string(item.key) + " " + std::to_string(item.element.valid_rows);
  for (std::size_t i = 0; i < item.element.size(); ++i)
    text += " " + item.element.name(i) + " " + text_of(item.element[i]);
  return text;
}

class WorkOps : public ::testing::TestWithParam<WorkOpCase> {
 protected:
  const WorkOpPtr op_ = GetParam().make();

  static WorkItem item(std::size_t i) {
    WorkItem item;
    item.element = GetParam().element(i);
    item.index = i;
    item.ordinal = ordinal_of(i);
    return item;
  }
  static std::vector<WorkItem> items(std::size_t count = kElements) {
    std::vector<WorkItem> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(item(i));
    return all;
  }
  std::vector<std::string> outcomes(std::vector<WorkItem> items, std::size_t group = kElements,
                                    std::uint64_t key = 1) const {
    std::vector<std::string> all;
    for (std::size_t from = 0; from < items.size(); from += group) {
      HeapContext context(key, 3);
      op_->run(std::span(items).subspan(from, std::min(group, items.size() - from)), context);
    }
    for (const WorkItem& item : items) all.push_back(outcome_of(item));
    return all;
  }
};

TEST_P(WorkOps, GiveWhatTheyInfer) {
  const Spec output = op_->infer(GetParam().input);
  for (const std::size_t i : {0, 1, 5}) {
    EXPECT_EQ(GetParam().input.mismatch(GetParam().element(i)), "");
  }
  std::vector<WorkItem> all = items();
  HeapContext context;
  op_->run(all, context);
  for (const WorkItem& item : all) {
    ASSERT_TRUE(item.status.ok()) << item.status.error().what();
    EXPECT_EQ(output.mismatch(item.element), "");
    EXPECT_EQ(item.element.names(), output.names());
  }
}

TEST_P(WorkOps, GiveTheSameInAnyGroups) {
  const std::vector<std::string> expected = outcomes(items());
  for (const std::size_t group : {1, 2, 7}) EXPECT_EQ(outcomes(items(), group), expected) << group;
  HeapContext context;
  op_->run({}, context);
}

TEST_P(WorkOps, GiveTheSameToSeveralThreads) {
  const std::vector<std::string> expected = outcomes(items());
  std::vector<std::jthread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] { EXPECT_EQ(outcomes(items(), 5 + thread), expected); });
  }
}

TEST_P(WorkOps, GiveTheSameInRows) {
  const Spec output = op_->infer(GetParam().input);
  std::vector<std::vector<std::byte>> columns(output.size());
  std::vector<std::byte*> bases(output.size(), nullptr);
  std::vector<std::size_t> strides(output.size(), 0);
  for (std::size_t c = 0; c < output.size(); ++c) {
    if (output[c].dtype == DType::bytes || !output[c].shape.is_static()) continue;
    strides[c] = static_cast<std::size_t>(output[c].shape.volume()) * size_of(output[c].dtype);
    columns[c].resize(strides[c] * kElements);
    bases[c] = columns[c].data();
  }
  std::vector<WorkItem> all = items();
  for (std::size_t i = 0; i < all.size(); ++i) all[i].row = Row(bases.data(), strides.data(), i);
  EXPECT_EQ(outcomes(std::move(all)), outcomes(items()));
}

TEST_P(WorkOps, LeaveFailedAndDroppedItemsAlone) {
  const std::vector<std::string> expected = outcomes(items());
  std::vector<WorkItem> all = items();
  all[3].status = Status(ErrorCode::unavailable, "failed before");
  all[4].keep = false;
  all[5].status = Status(ErrorCode::data_loss, "failed, too");
  const std::string dropped = outcome_of(all[4]);
  HeapContext context(1, 3);
  op_->run(all, context);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(outcome_of(all[i]), i == 3   ? "unavailable: failed before"
                                  : i == 4 ? dropped
                                  : i == 5 ? "data_loss: failed, too"
                                           : expected[i])
        << i;
  }
}

TEST_P(WorkOps, FailABadElementAlone) {
  EXPECT_TRUE(op_->can_fail() || !GetParam().bad);
  if (!GetParam().bad) return;
  std::vector<std::string> expected = outcomes(items());
  for (const std::size_t bad : {0, 9, 63}) {
    for (const std::size_t group : {1, 7, 64}) {
      std::vector<WorkItem> all = items();
      all[bad].element = GetParam().bad();
      const std::vector<std::string> got = outcomes(std::move(all), group);
      for (std::size_t i = 0; i < kElements; ++i) {
        if (i != bad) {
          EXPECT_EQ(got[i], expected[i]) << i << " beside " << bad;
        }
      }
      all = items();
      all[bad].element = GetParam().bad();
      HeapContext context(1, 3);
      op_->run(all, context);
      EXPECT_FALSE(all[bad].status.ok());
    }
  }
}

TEST_P(WorkOps, DrawByTheOrdinalAlone) {
  const std::vector<std::string> expected = outcomes(items());
  // In another order, with other indices, among others.
  std::vector<WorkItem> backwards = items();
  std::reverse(backwards.begin(), backwards.end());
  for (WorkItem& item : backwards) item.index = 5;
  std::vector<std::string> got = outcomes(std::move(backwards), 7);
  std::reverse(got.begin(), got.end());
  EXPECT_EQ(got, expected);
  // Other ordinals and other runs are other numbers, if there are any.
  std::vector<WorkItem> others = items();
  for (WorkItem& item : others) item.ordinal += 1;
  EXPECT_EQ(outcomes(std::move(others)) != expected, op_->random());
  EXPECT_EQ(outcomes(items(), kElements, 2) != expected, op_->random());
}

TEST_P(WorkOps, GiveTheSameInColumns) {
  if (!op_->columnar()) return;
  const Spec output = op_->infer(GetParam().input);
  const auto stacked = [](const Spec& spec, std::size_t rows) {
    Element columns;
    for (const ComponentSpec& component : spec)
      columns.set(component.name,
                  Tensor::allocate(component.dtype,
                                   component.shape.prepend(static_cast<std::int64_t>(rows))));
    return columns;
  };
  for (const std::size_t rows : {std::size_t{1}, std::size_t{7}, kElements}) {
    Element in = stacked(GetParam().input, rows);
    for (std::size_t i = 0; i < rows; ++i) {
      const Element element = GetParam().element(i);
      for (std::size_t c = 0; c < in.size(); ++c) {
        element[c].copy_to(in[c].mutable_data() + i * element[c].nbytes());
      }
    }
    Element out = stacked(output, rows);
    WorkItem odd;
    odd.element = Element(in.names());
    const HeapContext context(1, 3);
    ASSERT_EQ(op_->run_columns(in, out, odd, context), rows);
    const std::vector<std::string> expected = outcomes(items(rows));
    for (std::size_t i = 0; i < rows; ++i) {
      WorkItem item;
      for (std::size_t c = 0; c < out.size(); ++c)
        item.element.set(out.name(c), out[c][static_cast<std::int64_t>(i)]);
      EXPECT_EQ(outcome_of(item), expected[i]) << i << " of " << rows;
    }
  }
}

TEST_P(WorkOps, DescribeThemselvesAlike) {
  Description first;
  Description second;
  op_->describe(first);
  GetParam().make()->describe(second);
  EXPECT_EQ(first.to_string(), second.to_string());
  EXPECT_EQ(op_->name(), GetParam().make()->name());
  EXPECT_GE(op_->preferred_group(), 1);
}

INSTANTIATE_TEST_SUITE_P(Conformance, WorkOps, ::testing::ValuesIn(test::work_ops()),
                         [](const auto& tested) {
                           std::string name;
                           for (const char c : tested.param.name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
                           }
                           return name;
                         });

}  // namespace work_ops_test
}  // namespace penstock
