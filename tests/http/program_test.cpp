// The program on data of a server: the same digests as from here, positions that refuse what
// changed, and no secret anywhere.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include <gmock/gmock.h>

#include "tests/support/cached_blocks.h"
#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/program.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Flags = std::vector<std::string>;

std::string digest_of(Flags flags) {
  flags.insert(flags.begin(), "profile");
  flags.insert(flags.end(), {"--seed", "3", "--quiet", "--json", "-"});
  const Outcome outcome = run_program(flags);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.code == 0 ? outcome.json()["digest"].dump() : "";
}

/// What `synth` makes, on a server as well.
class HttpProgram : public testing::Test {
 protected:
  HttpServer::Files made(const Flags& flags) {
    std::filesystem::remove_all(folder_ / "data");
    first_.clear();
    Flags all{"synth", folder_ / "data", "--images", "24", "--size", "40x50"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = run_program(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    HttpServer::Files files;
    std::string list;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "data")) {
      if (!entry.is_regular_file()) continue;
      const std::string name = std::filesystem::relative(entry.path(), folder_.path()).string();
      files["/" + name] = read_file(entry.path().string());
      list += name + "\n";
      const std::string file = entry.path().filename().string();
      if (file.find("images-idx") != file.npos) images_ = file;
      if (file.find("labels-idx") != file.npos) labels_ = file;
      if (first_.empty() || file < first_) first_ = file;
    }
    pattern_ = first_.substr(0, 1) + "*";
    files["/list.txt"] = list;
    return files;
  }

  TempFolder folder_;
  std::string images_, labels_, first_, pattern_;
};

TEST_F(HttpProgram, DigestsOfFiles) {
  const std::pair<const char*, Flags> formats[] = {
      {"tar", {"--shuffle", "--decode", "--resize", "32", "--batch", "8"}},
      {"folder", {"--shuffle", "--decode", "--resize", "32", "--batch", "8"}},
      {"tfrecord",
       {"--example", "image/encoded,image/class/label:i64", "--shuffle", "--decode", "--resize",
        "32", "--batch", "8"}},
      {"idx", {"--shuffle", "--batch", "8"}},
      {"csv", {"--shuffle", "--batch", "8"}}};
  for (const auto& row : formats) {
    const std::string format = row.first;
    const Flags& stages = row.second;
    const HttpServer server(made({"--format", format}));
    const auto flags = [&](const std::string& data) {
      const bool folder = format == "folder";
      Flags all{folder ? "--images" : "--" + format};
      if (folder) {
        all.push_back(data);
      } else if (format == "idx") {
        all.push_back(data + "/" + images_ + "," + data + "/" + labels_);
      } else {
        all.push_back(data + "/" + pattern_);
      }
      all.insert(all.end(), stages.begin(), stages.end());
      return all;
    };
    const std::string expected = digest_of(flags(folder_ / "data"));
    Flags remote = flags(server.url() + "/data");
    remote.insert(remote.end(), {"--remote-list", server.url() + "/list.txt"});
    EXPECT_EQ(digest_of(remote), expected) << format;
  }
}

TEST_F(HttpProgram, ServersInReports) {
  const HttpServer server(made({"--format", "tar"}));
  const nlohmann::json json =
      profile_json({"--tar", server.url() + "/data/" + first_, "--batch", "4"});
  EXPECT_GT(json["remote"]["requests"], 0);
  EXPECT_GT(json["remote"]["bytes_needed"], 24 * 1000);
  EXPECT_EQ(json["remote"]["connections"], 256);
  EXPECT_FALSE(profile_json({"--range", "3"}).contains("remote"));
}

/// Profiles a folder for a second on a server that answers 503 to these requests for ever.
Outcome profile_of_busy_server(HttpServer::Files files,
                               const std::function<bool(const std::string& head)>& busy) {
  HttpServerOptions options;
  options.instead_of = [&](const std::string& head) {
    return busy(head) ? std::string("HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n")
                      : std::string();
  };
  const HttpServer server(std::move(files), options);
  return Program({"profile", "--images", server.url() + "/data", "--remote-list",
                  server.url() + "/list.txt", "--remote-timeout", "600", "--seconds", "1",
                  "--quiet", "--json", "-"})
      .wait(60);
}

TEST_F(HttpProgram, SecondsOfARunThatRetries) {
  std::atomic<int> gets = 0;
  const Outcome outcome =
      profile_of_busy_server(made({"--format", "folder"}), [&](const std::string& head) {
        // The opening asks for the sizes of files alone.
        const bool reads = head.starts_with("GET") && head.find(".jpg") != head.npos &&
                           head.find("bytes=0-0") == head.npos;
        return reads && ++gets > 3;
      });
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_GT(gets, 3);
}

TEST_F(HttpProgram, SecondsOfAnOpeningThatRetries) {
  const Outcome outcome =
      profile_of_busy_server(made({"--format", "folder"}), [](const std::string&) { return true; });
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("took longer than 1.00 s (--seconds)"));
}

/// Three ranks read a folder each. One file of rank 1 is slow.
TEST_F(HttpProgram, MergedReports) {
  const std::string data = folder_ / "data";
  ASSERT_EQ(run_program({"synth", data, "--format", "tar", "--images", "60", "--size", "500x600",
                         "--shards", "3"})
                .code,
            0);
  HttpServer::Files files;
  std::vector<std::string> shards;
  for (const auto& entry : std::filesystem::directory_iterator(data)) {
    if (entry.path().extension() != ".tar") continue;
    shards.push_back("/" + entry.path().filename().string());
    for (const char* rank : {"/0", "/1", "/2"})
      files[rank + shards.back()] = read_file(entry.path().string());
  }
  std::ranges::sort(shards);
  ASSERT_EQ(shards.size(), 3U);
  HttpServerOptions options;
  const std::string slow = "/1" + shards[1];
  options.instead = [slow](const std::string&, const std::string& target) {
    if (target == slow) std::this_thread::sleep_for(std::chrono::milliseconds(60));
    return std::string();
  };
  const HttpServer server(std::move(files), options);
  std::vector<std::unique_ptr<Program>> ranks;
  for (const char* rank : {"0", "1", "2"}) {
    Flags flags{"profile", "--tar"};
    for (const std::string& shard : shards) flags.push_back(server.url() + "/" + rank + shard);
    for (const char* flag : {"--keep", "label", "--batch", "2", "--device", "host:0", "--step-ms",
                             "2", "--remote-connections", "1", "--quiet"})
      flags.emplace_back(flag);
    ranks.push_back(std::make_unique<Program>(flags, "",
                                              Flags{std::string("RANK=") + rank, "WORLD_SIZE=3",
                                                    "PENSTOCK_REPORT=" + (folder_ / "%r.json")}));
  }
  for (const auto& rank : ranks) {
    const Outcome outcome = rank->wait();
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  const Outcome merged = run_program({"report", "merge", folder_ / "0.json", folder_ / "1.json",
                                      folder_ / "2.json", "--json", "-"});
  ASSERT_EQ(merged.code, 0) << merged.err;
  const nlohmann::json verdict = merged.json()["verdict"];
  EXPECT_EQ(verdict["ranks"], nlohmann::json({1})) << merged.out;
  EXPECT_EQ(verdict["stage"], "tar[0]");
  EXPECT_EQ(verdict["shard"], server.url() + slow) << merged.out;
}

TEST_F(HttpProgram, DigestsOfS3) {
  ::setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "very/5ecret", 1);
  ::setenv("AWS_SESSION_TOKEN", "t0ken", 1);
  const HttpServer server(made({"--format", "tar"}));
  const Flags stages{"--shuffle", "--decode", "--resize", "32", "--batch", "8"};
  Flags here{"--tar", folder_ / ("data/" + first_)};
  here.insert(here.end(), stages.begin(), stages.end());
  Flags there{"--tar", "s3://data/" + first_, "--s3-endpoint", server.url()};
  there.insert(there.end(), stages.begin(), stages.end());
  EXPECT_EQ(digest_of(there), digest_of(here));
  EXPECT_THAT(server.log(), HasSubstr("x-amz-security-token: t0ken"));
  there.insert(there.begin(), "profile");
  there.insert(there.end(), {"--json", "-"});
  const Outcome outcome = run_program(there);
  EXPECT_EQ((outcome.out + outcome.err).find("5ecret"), std::string::npos);
  EXPECT_EQ((outcome.out + outcome.err).find("t0ken"), std::string::npos);
  EXPECT_EQ(server.log().find("5ecret"), std::string::npos);
}

TEST_F(HttpProgram, DigestsFromACacheOnDisk) {
  const HttpServer server(made({"--format", "tar"}));
  const TempFolder folder;
  const Flags stages{"--shuffle", "--decode", "--resize", "32", "--batch", "8"};
  Flags here{"--tar", folder_ / ("data/" + first_)};
  here.insert(here.end(), stages.begin(), stages.end());
  const std::string expected = digest_of(here);
  Flags there{"--tar",         server.url() + "/data/" + first_,
              "--cache-dir",   folder / "cache",
              "--cache-bytes", "1GiB"};
  there.insert(there.end(), stages.begin(), stages.end());
  EXPECT_EQ(digest_of(there), expected);
  const std::size_t before = server.log().size();
  EXPECT_EQ(digest_of(there), expected);
  // Whether it is still the same, and no more.
  std::string since = server.log().substr(before);
  for (const std::string probe = "Range: bytes=0-0\r"; since.find(probe) != since.npos;)
    since.erase(since.find(probe), probe.size());
  EXPECT_THAT(since, HasSubstr("GET "));
  EXPECT_THAT(since, Not(HasSubstr("Range: ")));
  for (const auto& block : cached_blocks(folder / "cache")) std::filesystem::resize_file(block, 99);
  EXPECT_EQ(digest_of(there), expected);
}

TEST_F(HttpProgram, FindsOutWhatThereIs) {
  const HttpServer server(made({"--format", "tar"}));
  const Outcome outcome = run_program({"inspect", server.url() + "/data/" + first_, "--json", "-"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("tar"));
  const std::string expected = digest_of({folder_ / ("data/" + first_), "--batch", "4"});
  EXPECT_EQ(digest_of({server.url() + "/data/" + first_, "--batch", "4"}), expected);
}

TEST_F(HttpProgram, PositionOfChangedData) {
  const HttpServer::Files files = made({"--format", "tar"});
  HttpServer server(files);
  const Flags run{"profile",
                  "--tar",
                  server.url() + "/data/" + first_,
                  "--shuffle",
                  "--batch",
                  "2",
                  "--batches",
                  "3",
                  "--seed",
                  "3",
                  "--quiet",
                  "--state",
                  folder_ / "state",
                  "--digests",
                  folder_ / "digests"};
  ASSERT_EQ(run_program(run).code, 0);
  EXPECT_EQ(run_program(run).code, 0);
  std::string other = files.at("/data/" + first_);
  other[600] = static_cast<char>(other[600] ^ 1);
  server.replace("/data/" + first_, other);
  const Outcome outcome = run_program(run);
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr(first_));
}

TEST_F(HttpProgram, Secrets) {
  const HttpServer server(made({"--format", "tar"}));
  const std::string secret = "http://me:passw0rd@127.0.0.1:" + std::to_string(server.port()) +
                             "/data/" + first_ + "?X-Amz-Signature=5ec2e7";
  const TempFolder out;
  const std::vector<Flags> runs{
      {"profile", "--tar", secret, "--batch", "4", "--quiet", "--state", out / "state", "--digests",
       out / "digests", "--json", out / "json", "--html", out / "html", "--trace", out / "trace"},
      {"explain", "--verbose", "--tar", secret, "--batch", "4"},
      {"inspect", secret},
      {"profile", "--range", "3", secret},
      {"profile", "--tar", secret + "&x", "--label-regex", "(nothing)", "--batch", "4"},
      {"profile", "--csv", secret, "--batch", "4"},
      {"profile", "--idx", secret + "," + secret}};
  std::string all;
  for (const Flags& flags : runs) {
    const Outcome outcome = run_program(flags);
    all += outcome.out + outcome.err;
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out.path()))
    if (entry.is_regular_file()) all += read_file(entry.path().string());
  EXPECT_THAT(all, HasSubstr("127.0.0.1"));
  EXPECT_EQ(all.find("5ec2e7"), all.npos) << all.substr(all.find("5ec2e7") - 100, 200);
  EXPECT_EQ(all.find("passw0rd"), all.npos);
  EXPECT_THAT(server.log(), HasSubstr("?X-Amz-Signature=5ec2e7 HTTP"));
}

TEST_F(HttpProgram, SaysThatItReadsFromServers) {
  EXPECT_THAT(run_program({"--version"}).out, HasSubstr("libcurl yes"));
}

}  // namespace
}  // namespace penstock::test
