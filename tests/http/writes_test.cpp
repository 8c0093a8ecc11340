// The program writing to a store: the same bytes as here, whole or not at all, and no secret shown.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/files.h"
#include "tests/support/http_server.h"
#include "tests/support/program.h"
#include "tests/support/time_limit.h"

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Flags = std::vector<std::string>;

/// S3's list of a store.
HttpServerOptions listing_of(const HttpServer* const* server) {
  HttpServerOptions options;
  options.instead = [server](const std::string&, const std::string& target) -> std::string {
    if (target.find("list-type=2") == target.npos) return {};
    const std::size_t from = target.find("prefix=") + 7;
    std::string prefix = target.substr(from, target.find('&', from) - from);
    for (std::size_t at = 0; (at = prefix.find("%2F")) != prefix.npos;) prefix.replace(at, 3, "/");
    std::string xml = "<ListBucketResult>";
    for (const auto& [path, object] : (*server)->store().objects()) {
      const std::string key = path.substr(3);  // behind "/b/"
      if (!key.starts_with(prefix)) continue;
      const std::string etag = object->etag.substr(1, object->etag.size() - 2);
      xml += "<Contents><Key>" + key + "</Key><Size>" + std::to_string(object->contents.size()) +
             "</Size><ETag>" + etag + "</ETag></Contents>";
    }
    xml += "</ListBucketResult>";
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(xml.size()) + "\r\n\r\n" + xml;
  };
  return options;
}

class ProgramWrites : public testing::Test {
 protected:
  ProgramWrites() : server_(HttpServer::Files{}, listing_of(&self_)), self_(&server_) {
    ::setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "very/5ecret", 1);
    ::setenv("AWS_SESSION_TOKEN", "t0ken", 1);
    ::setenv("AWS_ENDPOINT_URL_S3", server_.url().c_str(), 1);
  }
  std::string held(const std::string& path) const {
    const auto object = server_.store().find(path);
    return object != nullptr ? object->contents : "nothing";
  }
  Outcome run(const Flags& flags) {
    const Outcome outcome = run_program(flags);
    shown_ += outcome.out + outcome.err;
    return outcome;
  }

  const TimeLimit limit_{300};
  TempFolder folder_;
  const HttpServer server_;
  const HttpServer* self_ = nullptr;
  std::string shown_;
};

TEST_F(ProgramWrites, ObjectsOfSynth) {
  const Flags kinds[] = {
      {"--format", "tar", "--size", "60x70", "--shards", "3", "--corrupt", "10%"},
      {"--format", "folder", "--size", "60x70"},
      {"--format", "tfrecord", "--size", "60x70", "--shards", "2", "--compression", "gzip"},
      {"--format", "idx", "--size", "28x28", "--compression", "gzip"},
      {"--format", "csv", "--shards", "2"}};
  for (const Flags& kind : kinds) {
    const std::string here = folder_ / kind[1];
    Flags flags{"synth", here, "--images", "40"};
    flags.insert(flags.end(), kind.begin(), kind.end());
    ASSERT_EQ(run(flags).code, 0);
    flags[1] = "s3://b/data/" + kind[1];
    ASSERT_EQ(run(flags).code, 0) << shown_;
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(here)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = std::filesystem::relative(entry.path(), here).string();
      EXPECT_TRUE(held("/b/data/" + kind[1] + "/" + name) == read_file(entry.path())) << name;
      ++files;
    }
    std::size_t objects = 0;
    for (const auto& [path, object] : server_.store().objects())
      objects += path.starts_with("/b/data/" + kind[1] + "/") ? 1 : 0;
    EXPECT_EQ(objects, files) << kind[1];
  }
}

TEST_F(ProgramWrites, SynthIntoANonemptyFolder) {
  const Flags flags{"synth", "s3://b/d", "--images", "3", "--format", "tar"};
  ASSERT_EQ(run(flags).code, 0) << shown_;
  const Outcome again = run(flags);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("the folder is not empty"));
  Flags forced = flags;
  forced.emplace_back("--force");
  EXPECT_EQ(run(forced).code, 0);
}

TEST_F(ProgramWrites, ObjectsOfPack) {
  ASSERT_EQ(run({"synth", folder_ / "photos", "--images", "40", "--size", "375x500"}).code, 0);
  Flags flags{"pack",         "--images", folder_ / "photos", "--jpeg",
              "coefficients", "--out",    folder_ / "a.pnr"};
  ASSERT_EQ(run(flags).code, 0);
  flags.back() = "s3://b/a.pnr";
  for (int i = 0; i < 2; ++i) {  // the second takes the place of the first
    ASSERT_EQ(run(flags).code, 0) << shown_;
    EXPECT_TRUE(held("/b/a.pnr") == read_file(folder_ / "a.pnr"));
  }
  EXPECT_EQ(server_.store().open_uploads(), 0);
  const auto digest = [&](const std::string& path) {
    return profile_json(
        {"--records", path, "--decode", "--resize", "32", "--batch", "8", "--digest"})["digest"];
  };
  EXPECT_EQ(digest("s3://b/a.pnr"), digest(folder_ / "a.pnr"));
}

TEST_F(ProgramWrites, InterruptedUpload) {
  ASSERT_EQ(run({"synth", folder_ / "photos", "--images", "60", "--size", "1500x2000"}).code, 0);
  Program pack({"pack", "--images", folder_ / "photos", "--jpeg", "coefficients", "--threads", "1",
                "--out", "s3://b/a.pnr"});
  while (server_.store().open_uploads() == 0 && !pack.ended()) ::usleep(1000);
  pack.signal(SIGTERM);
  const Outcome outcome = pack.wait(60);
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("nothing is kept"));
  EXPECT_EQ(server_.store().open_uploads(), 0);
  EXPECT_EQ(held("/b/a.pnr"), "nothing");
}

TEST_F(ProgramWrites, IndicesBesideShards) {
  ASSERT_EQ(run({"synth", "s3://b/d", "--images", "200", "--format", "tar"}).code, 0);
  const std::string shard = "s3://b/d/data-00000-of-00001.tar";
  const Flags flags{"--tar", shard, "--index-folder", "beside", "--batch", "50"};
  profile_json(flags);
  EXPECT_THAT(held("/b/d/.data-00000-of-00001.tar.penstock-index"), HasSubstr("PNSTIDX2"));
}

TEST_F(ProgramWrites, PlainHttp) {
  ASSERT_EQ(run({"synth", folder_ / "photos", "--images", "3"}).code, 0);
  const std::string url = "http://me:passw0rd@127.0.0.1:1/d?X-Amz-Signature=5ec2e7";
  for (const Flags& flags :
       {Flags{"synth", url, "--images", "3"},
        Flags{"pack", "--images", folder_ / "photos", "--jpeg", "indexed", "--out", url},
        Flags{"profile", "--range", "3", "--digests", folder_ / "d", "--state", url}}) {
    const Outcome outcome = run(flags);
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(outcome.err, HasSubstr("HTTP has no atomic writes")) << flags[0];
  }
  EXPECT_THAT(shown_, Not(HasSubstr("5ec2e7")));
  EXPECT_THAT(shown_, Not(HasSubstr("passw0rd")));
}

TEST_F(ProgramWrites, PositionInAStore) {
  Flags flags{"profile", "--range", "100",     "--shuffle", "--seed", "3",
              "--batch", "7",       "--quiet", "--json",    "-",      "--digest"};
  const auto whole = run(flags).json()["digest"];
  for (const char* flag : {"--state", "s3://b/run/state", "--save-every", "2"})
    flags.emplace_back(flag);
  flags.insert(flags.end(), {"--digests", folder_ / "digests", "--batches", "5"});
  ASSERT_EQ(run(flags).code, 0) << shown_;
  flags.back() = "100";
  const Outcome last = run(flags);
  ASSERT_EQ(last.code, 0) << shown_;
  EXPECT_EQ(last.json()["digest"], whole);
  EXPECT_THAT(held("/b/run/state"), HasSubstr("penstock state 1"));
}

TEST_F(ProgramWrites, Secrets) {
  ASSERT_EQ(run({"synth", folder_ / "photos", "--images", "5"}).code, 0);
  HttpServerOptions options;
  options.fault_every = 1;
  options.faults = {HttpFault::forbidden, HttpFault::internal, HttpFault::reset};
  const HttpServer failing(HttpServer::Files{}, options);
  for (const std::string& endpoint :
       {server_.url(), failing.url(), std::string("http://127.0.0.1:1")}) {
    run({"synth", "s3://b/x", "--images", "5", "--format", "tar", "--retries", "1", "--s3-endpoint",
         endpoint});
    run({"pack", "--images", folder_ / "photos", "--jpeg", "indexed", "--out", "s3://b/x.pnr",
         "--retries", "1", "--json", folder_ / "json", "--s3-endpoint", endpoint});
    run({"profile", "--range", "10", "--batch", "2", "--digests", folder_ / "digests", "--state",
         "s3://b/state", "--retries", "1", "--s3-endpoint", endpoint});
  }
  for (const auto& [path, object] : server_.store().objects()) shown_ += path + object->contents;
  shown_ += read_file(folder_ / "json") + read_file(folder_ / "digests") + server_.log();
  EXPECT_THAT(shown_, HasSubstr("HTTP 403 Forbidden"));
  EXPECT_EQ(shown_.find("5ecret"), shown_.npos);
  // It goes to the server, as the signature has it, and is shown nowhere.
  EXPECT_THAT(server_.log(), HasSubstr("x-amz-security-token: t0ken"));
  std::string rest = shown_.substr(0, shown_.size() - server_.log().size());
  EXPECT_EQ(rest.find("t0ken"), rest.npos);
}

}  // namespace
}  // namespace penstock::test
