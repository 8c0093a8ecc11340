#include <penstock/error.h>

#include <stdexcept>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Provenance, Text) {
  struct Case {
    Provenance where;
    std::string text;
  };
  const Case cases[] = {
      {{}, ""},
      {{"train-0.tar", 1536, 12, "map[2] decode_jpeg"},
       "train-0.tar @1536 record 12, stage map[2] decode_jpeg"},
      {{"train-0.tar", -1, 12, ""}, "train-0.tar record 12"},
      {{"", -1, -1, "batch"}, "stage batch"},
      {{"", 0, 0, ""}, "@0 record 0"},
  };
  for (const Case& c : cases) EXPECT_EQ(c.where.to_string(), c.text);
}

TEST(Error, Text) {
  EXPECT_STREQ(Error(ErrorCode::data_loss, "cut short").what(), "cut short");
  const Error error(ErrorCode::data_loss, "cut short", {"a.tar", 512, -1, ""});
  EXPECT_STREQ(error.what(), "cut short (a.tar @512)");
  EXPECT_EQ(error.cause(), "cut short");
  EXPECT_EQ(error.original(), nullptr);
  EXPECT_EQ(name_of(error.code()), "data_loss");
}

template <typename F>
Status caught(F throws) {
  try {
    throws();
  } catch (...) {
    return status_from_current_exception();
  }
  return {};
}

TEST(Status, FromExceptions) {
  const Status error = caught([] { throw Error(ErrorCode::not_found, "gone", {"x", 1, 2, "s"}); });
  EXPECT_EQ(error.error().code(), ErrorCode::not_found);
  EXPECT_STREQ(error.error().what(), "gone (x @1 record 2, stage s)");

  const Status memory = caught([] { throw std::bad_alloc(); });
  EXPECT_EQ(memory.error().code(), ErrorCode::resource_exhausted);
  EXPECT_EQ(&memory.error(), &Status::out_of_memory().error());
  EXPECT_THROW(std::rethrow_exception(memory.error().original()), std::bad_alloc);

  const Status user = caught([] { throw std::range_error("my text"); });
  EXPECT_EQ(user.error().code(), ErrorCode::user);
  EXPECT_EQ(user.error().cause(), "my text");
  EXPECT_THROW(std::rethrow_exception(user.error().original()), std::range_error);

  const Status odd = caught([] { throw 42; });
  EXPECT_EQ(odd.error().code(), ErrorCode::user);
  EXPECT_THROW(std::rethrow_exception(odd.error().original()), int);
}

struct Odd {};

TEST(Status, OfExceptionsWithoutAMessageTellsWhatWasThrown) {
  const struct {
    Status status;
    std::string cause;
  } cases[] = {
      {caught([] { throw 42; }), "the int 42 was thrown"},
      {caught([] { throw -1; }), "the int -1 was thrown"},
      {caught([] { throw "no such thing"; }), "no such thing"},
      {caught([] { throw static_cast<const char*>(nullptr); }), "a null const char* was thrown"},
      {caught([] { throw std::string("a text"); }), "a text"},
      {caught([] { throw 2.5; }), "an exception of type double"},
      {caught([] { throw Odd(); }), "an exception of type penstock::(anonymous namespace)::Odd"},
  };
  for (const auto& [status, cause] : cases) {
    EXPECT_EQ(status.error().code(), ErrorCode::user);
    EXPECT_EQ(status.error().cause(), cause);
    EXPECT_NE(status.error().original(), nullptr);
  }
}

TEST(Status, Copies) {
  EXPECT_TRUE(Status().ok());
  const Status status(ErrorCode::internal, "x");
  const Status copy = status;
  EXPECT_FALSE(copy.ok());
  EXPECT_EQ(&copy.error(), &status.error());
}

}  // namespace
}  // namespace penstock
