// Which addresses are private, and which redirects a request follows.
#include "pipeline/http/redirects.h"

#include <optional>

#include <gmock/gmock.h>

#include "pipeline/http/address.h"
#include "tests/support/errors.h"

namespace penstock::http {
namespace {

using test::expect_error;

TEST(Addresses, PrivateHosts) {
  for (const char* host : {"127.0.0.1",
                           "127.8.9.1",
                           "0.0.0.0",
                           "0.1.2.3",
                           "10.0.0.1",
                           "10.255.255.255",
                           "100.64.0.1",
                           "100.127.255.255",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.8",
                           "192.168.0.1",
                           "127.1",
                           "0x7f.1",
                           "2130706433",
                           "0177.0.0.1",
                           "localhost",
                           "localhost.",
                           "a.localhost",
                           "[::1]",
                           "::1",
                           "[::]",
                           "[::ffff:127.0.0.1]",
                           "[::ffff:10.1.2.3]",
                           "[::127.0.0.1]",
                           "[fe80::1]",
                           "fe80::1%eth0",
                           "[fc00::1]",
                           "[fd12::3]",
                           "[fec0::1]",
                           "[64:ff9b::10.0.0.1]",
                           "[2002:7f00:1::]",
                           "[2002:a9fe:a9fe::]"})
    EXPECT_TRUE(is_private_host(host)) << host;
  for (const char* host : {"1.1.1.1",          "9.255.255.255",      "11.0.0.0",
                           "100.63.255.255",   "100.128.0.0",        "126.255.255.255",
                           "128.0.0.0",        "169.253.255.255",    "169.255.0.0",
                           "172.15.255.255",   "172.32.0.0",         "192.0.1.1",
                           "192.167.255.255",  "192.169.0.0",        "8.8",
                           "a.example",        "localhost.example",  "[2606:4700::1111]",
                           "[::ffff:1.1.1.1]", "[64:ff9b::1.1.1.1]", "[2002:101:101::]"})
    EXPECT_FALSE(is_private_host(host)) << host;
}

struct Step {
  const char* location;
  bool private_peer = false;
};

/// Returns where a request ends that is sent on by these redirects.
std::string end_of(Redirects& redirects, const char* first, std::vector<Step> steps,
                   bool authorized = false) {
  Route route(redirects, "path", authorized);
  route.begin(parse_url(first));
  for (const Step& step : steps) route.follow(step.location, step.private_peer);
  route.succeeded();
  return route.target().url.whole();
}

TEST(Routes, FollowedRedirects) {
  struct Case {
    const char* first;
    std::vector<Step> steps;
    const char* end;
  };
  const std::vector<Case> table = {
      {"http://a.example/x", {{"/y"}}, "http://a.example/y"},
      {"http://a.example/x/z", {{"y?b=c"}}, "http://a.example/x/y?b=c"},
      {"http://a.example/x", {{"http://b.example/y"}}, "http://b.example/y"},
      {"http://a.example/x", {{"//b.example:81/y"}}, "http://b.example:81/y"},
      {"http://a.example/x", {{"https://a.example/x"}}, "https://a.example/x"},
      {"https://a.example/x",
       {{"https://b.example/y"}, {"https://c.example/z"}},
       "https://c.example/z"},
      {"http://127.0.0.1/x", {{"http://127.0.0.2/x", true}}, "http://127.0.0.2/x"},
      {"http://store.lan/x", {{"http://10.0.0.7/x", true}}, "http://10.0.0.7/x"},
      {"http://a.example/x?version=7", {{"http://b.example/x"}}, "http://b.example/x"},
      {"http://a.example/x",
       {{"https://b.example/y?X-Amz-Signature=1"}},  // signed by the server, not by us
       "https://b.example/y?X-Amz-Signature=1"},
      {"http://me:word@a.example/x", {{"/y"}}, "http://a.example/y"},
      {"http://a.example/1", {{"/2"}, {"/3"}, {"/4"}, {"/5"}, {"/6"}}, "http://a.example/6"},
  };
  for (const Case& row : table) {
    Redirects redirects;
    EXPECT_EQ(end_of(redirects, row.first, row.steps), row.end);
    EXPECT_EQ(end_of(redirects, row.first, {}), row.end) << "the second request";
  }
}

TEST(Routes, RefusedRedirects) {
  struct Case {
    const char* first;
    std::vector<Step> steps;
    const char* why;
    bool authorized = false;
  };
  const std::vector<Case> table = {
      {"http://a.example/1", {{"/2"}, {"/3"}, {"/4"}, {"/5"}, {"/6"}, {"/7"}}, "circles"},
      {"http://a.example/x", {{"http://b.example/y"}}, "credentials are not for that server", true},
      {"http://me:word@a.example/x",
       {{"http://b.example/y"}},
       "credentials are not for that server"},
      {"http://a.example/x?X-Amz-Signature=1",
       {{"http://b.example/y"}},
       "credentials are not for that server"},
      {"http://a.example/x?a=1&x-goog-signature=1",
       {{"http://b.example/y"}},
       "credentials are not for that server"},
      {"http://a.example/x?sv=1&sig=abc",
       {{"http://b.example/y"}},
       "credentials are not for that server"},
      {"http://a.example/x?Token=1",
       {{"http://b.example/y"}},
       "credentials are not for that server"},
      {"https://a.example/x", {{"http://b.example/y"}}, "drop TLS"},
      {"https://a.example/x", {{"http://a.example/x"}}, "drop TLS"},
      {"http://a.example/x", {{"https://b.example/y"}, {"http://c.example/z"}}, "drop TLS"},
      {"http://a.example/x", {{"http://127.0.0.1/y"}}, "private network"},
      {"http://a.example/x", {{"http://169.254.169.254/latest"}}, "private network"},
      {"http://a.example/x", {{"http://localhost:8080/y"}}, "private network"},
      {"http://a.example/x", {{"http://[::ffff:10.0.0.1]/y"}}, "private network"},
      {"http://a.example/x", {{"http://2130706433/y"}}, "private network"},
      // Having been public once, it stays so.
      {"http://a.example/x", {{"http://b.example/y"}, {"http://10.0.0.1/z", true}}, "private"},
  };
  for (const Case& row : table) {
    Redirects redirects;
    expect_error(ErrorCode::invalid_argument, row.why,
                 [&] { end_of(redirects, row.first, row.steps, row.authorized); });
    EXPECT_EQ(end_of(redirects, row.first, {}), parse_url(row.first).whole());
  }
}

TEST(Routes, WithSecretsLeaveThemBehind) {
  Redirects redirects;
  Route route(redirects, "path", false);
  route.begin(parse_url("http://me:word@a.example/x"));
  route.follow("/y", false);
  EXPECT_EQ(route.target().url.userinfo, "me:word");
}

TEST(Routes, OfTargetsThatExpired) {
  Redirects redirects;
  const Url first = parse_url("http://a.example/x");
  end_of(redirects, "http://a.example/x", {{"http://b.example/y?signature=1"}});
  EXPECT_EQ(redirects.target_of(first).url.whole(), "http://b.example/y?signature=1");
  EXPECT_TRUE(redirects.target_of(first).public_only);
  Route route(redirects, "path", false);
  route.begin(first);
  EXPECT_FALSE(route.failed(500));
  EXPECT_FALSE(route.failed(429));
  EXPECT_TRUE(route.failed(403));
  EXPECT_EQ(route.target().url.whole(), first.whole());
  EXPECT_FALSE(route.failed(403));  // the first server refuses, too
  EXPECT_EQ(redirects.target_of(first).url.whole(), first.whole());
}

}  // namespace
}  // namespace penstock::http
