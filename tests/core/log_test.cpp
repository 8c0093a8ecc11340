#include <penstock/log.h>

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

class Log : public testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](LogLevel, std::string_view line) { lines_.emplace_back(line); });
  }
  void TearDown() override { set_log_sink(nullptr); }

  std::vector<std::string> lines_;
};

TEST_F(Log, GoesToTheSink) {
  log(LogLevel::info, "one");
  set_log_sink(nullptr);
  log(LogLevel::info, "two");
  EXPECT_EQ(lines_, std::vector<std::string>{"one"});
}

TEST_F(Log, RepeatedTopic) {
  for (int i = 0; i < 3; ++i) log_once(LogLevel::warning, "topic", "line " + std::to_string(i));
  log_once(LogLevel::warning, "other topic", "other");
  EXPECT_EQ(lines_, (std::vector<std::string>{"line 0", "other"}));
}

TEST_F(Log, TopicWithoutASink) {
  set_log_sink(nullptr);
  log_once(LogLevel::warning, "early", "lost");
  SetUp();
  log_once(LogLevel::warning, "early", "heard");
  EXPECT_EQ(lines_, std::vector<std::string>{"heard"});
}

TEST_F(Log, SinkThatLogsAndThrows) {
  set_log_sink([this](LogLevel, std::string_view line) {
    if (lines_.size() < 2) {
      lines_.emplace_back(line);
      log(LogLevel::debug, "nested");
    }
    throw std::runtime_error("sink");
  });
  log(LogLevel::info, "outer");
  EXPECT_EQ(lines_, (std::vector<std::string>{"outer", "nested"}));
}

}  // namespace
}  // namespace penstock
