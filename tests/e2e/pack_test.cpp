// penstock pack, unpack and --records, as a user runs them.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace penstock {
namespace {

using nlohmann::json;
using test::Outcome;
using test::run_program;
using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

class Pack : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TempFolder;
    ASSERT_EQ(run_program({"synth", in(), "--images", "60", "--size", "40x50..120x140"}).code, 0);
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string in() { return *folder_ / "in"; }
  static std::string records(const std::string& kind) {
    const std::string path = *folder_ / (kind + ".pnr");
    if (std::filesystem::exists(path)) return path;
    const Outcome outcome =
        run_program({"pack", "--images", in(), "--jpeg", kind, "--out", path, "--json", "-"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["records"], 60);
    EXPECT_EQ(outcome.json()["bytes_out"], std::filesystem::file_size(path));
    return path;
  }

  static test::TempFolder* folder_;
};
test::TempFolder* Pack::folder_ = nullptr;

json digest_of(Flags source, const std::string& backend = "auto") {
  for (const char* flag : {"--shuffle", "--random-resized-crop", "32", "--flip", "--normalize",
                           "--batch", "16", "--seed", "3", "--epochs", "2", "--digest"})
    source.emplace_back(flag);
  source.insert(source.end(), {"--jpeg-backend", backend});
  return test::profile_json(source);
}

TEST_F(Pack, DigestOfRecords) {
  const json plain = digest_of({"--images", in()});
  for (const char* kind : {"coefficients", "indexed"}) {
    const json packed = digest_of({"--records", records(kind)});
    EXPECT_EQ(packed["digest"], plain["digest"]) << kind;
    EXPECT_EQ(packed["jpeg_backend"][kind], 120) << kind;
    EXPECT_EQ(packed["jpeg_backend"]["own"], 0) << kind;
    const json library = digest_of({"--records", records(kind)}, "libjpeg-turbo");
    EXPECT_EQ(library["digest"], plain["digest"]) << kind;
    EXPECT_EQ(library["jpeg_backend"][kind], 0) << kind;
  }
}

TEST_F(Pack, TablesOfEachImage) {
  const std::string path = *folder_ / "own.pnr";
  const Outcome packed = run_program({"pack", "--images", in(), "--jpeg", "indexed", "--tables",
                                      "image", "--out", path, "--json", "-"});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(packed.json()["tables"], "image");
  EXPECT_NE(std::filesystem::file_size(path), std::filesystem::file_size(records("indexed")));
  EXPECT_EQ(digest_of({"--records", path})["digest"], digest_of({"--images", in()})["digest"]);
}

TEST_F(Pack, DigestOfImagesMadeOnADevice) {
  const json plain = digest_of({"--images", in()});
  for (const char* device : {"host:0", "host:0:copies:check"}) {
    for (const Flags& source : {Flags{"--records", records("coefficients")},
                                Flags{"--records", records("indexed")}, Flags{"--images", in()}}) {
      Flags flags = source;
      flags.insert(flags.end(), {"--on-device", "--device", device, "--epoch-end", "stop"});
      const json made = digest_of(flags);
      EXPECT_EQ(made["digest"], plain["digest"]) << device << " " << source[1];
      EXPECT_EQ(made["elements"], 120);
      const bool packed = source[1] == records("coefficients");
      const bool scanned = source[1] == in() && std::string(device) != "host:0";
      EXPECT_EQ(made["decoding"]["on_device"], packed || scanned ? 120 : 0);
      EXPECT_EQ(made["jpeg_backend"]["coefficients"], 0);
    }
  }
  const Outcome explained =
      run_program({"explain", "--verbose", "--records", records("coefficients"), "--on-device",
                   "--resize", "32x32"});
  EXPECT_EQ(explained.code, 0) << explained.err;
  EXPECT_THAT(explained.out, testing::AllOf(HasSubstr("image_on_device(decode,resize 32x32)"),
                                            HasSubstr("on the device: coefficient records")));
}

TEST_F(Pack, RecordsInEveryCommand) {
  const std::string path = records("coefficients");
  const Outcome verified = run_program({"verify", path});
  EXPECT_EQ(verified.code, 0);
  EXPECT_THAT(verified.out, HasSubstr("60 good, 0 bad"));
  const Outcome inspected = run_program({"inspect", path, "--classes"});
  EXPECT_EQ(inspected.code, 0);
  EXPECT_THAT(inspected.out, HasSubstr("image records"));
  const Outcome explained =
      run_program({"explain", "--verbose", "--records", path, "--resize", "32"});
  EXPECT_EQ(explained.code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("coefficients=60"));
  EXPECT_THAT(explained.out, HasSubstr("records of coefficients"));
}

TEST_F(Pack, UnpackedImages) {
  const std::string out = *folder_ / "out";
  const Outcome unpacked =
      run_program({"unpack", records("coefficients"), "--out", out, "--json", "-"});
  ASSERT_EQ(unpacked.code, 0) << unpacked.err;
  EXPECT_EQ(unpacked.json()["images"], 60);
  EXPECT_EQ(unpacked.json()["bad"], 0);
  EXPECT_GT(unpacked.json()["bytes"], 0);
  EXPECT_EQ(digest_of({"--images", out})["digest"], digest_of({"--images", in()})["digest"]);
  const std::string again = *folder_ / "again";
  const Outcome into = run_program(
      {"unpack", records("coefficients"), "--out", again, "--json", again + "/report.json"});
  EXPECT_EQ(into.code, 0) << into.err;
  // What is there stays there.
  EXPECT_EQ(run_program({"unpack", records("coefficients"), "--out", out}).code, 1);
  EXPECT_EQ(run_program({"unpack", records("coefficients"), "--out", out, "--force"}).code, 0);
}

TEST_F(Pack, PlacesOfDamage) {
  std::string bytes = test::read_file(records("coefficients"));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  const std::string path = folder_->write("damaged.pnr", bytes);
  const Outcome verified = run_program({"verify", path});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.out, HasSubstr("59 good, 1 bad"));
  EXPECT_THAT(verified.out, HasSubstr(path + " @"));
  EXPECT_THAT(verified.out, HasSubstr("CRC32C"));
  bytes.resize(bytes.size() / 3);
  EXPECT_EQ(run_program({"verify", folder_->write("cut.pnr", bytes)}).code, 1);
}

TEST_F(Pack, BadFiles) {
  const std::string bad = *folder_ / "bad";
  std::filesystem::copy(in(), bad, std::filesystem::copy_options::recursive);
  const std::string cut = folder_->write("bad/a/cut.jpg", "\xff\xd8\xff\xe0 no more");
  const std::string path = *folder_ / "bad.pnr";
  const Flags pack{"pack", "--images", bad, "--jpeg", "coefficients", "--out", path};
  const Outcome failed = run_program(pack);
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, HasSubstr(cut));
  Flags skipping = pack;
  skipping.insert(skipping.end(), {"--on-error", "skip"});
  const Outcome skipped = run_program(skipping);
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr(cut));
  EXPECT_THAT(skipped.out, HasSubstr("1 bad file skipped"));
  for (int i = 0; i < 70; ++i)
    folder_->write("bad/a/" + std::to_string(i) + "-cut.jpg", "\xff\xd8");
  std::filesystem::remove(path);
  const Outcome most = run_program(skipping);
  EXPECT_EQ(most.code, 1);
  EXPECT_THAT(most.err, HasSubstr("71 of 131 images are bad and were skipped, more than half"));
}

TEST_F(Pack, ResumeAfterAKill) {
  const std::string many = *folder_ / "many";
  ASSERT_EQ(run_program({"synth", many, "--images", "400", "--size", "150x200"}).code, 0);
  const auto pack = [&](const std::string& out) {
    return Flags{"pack", "--images", many, "--jpeg", "coefficients", "--out", out, "--json", "-"};
  };
  const std::string whole = *folder_ / "whole.pnr";
  ASSERT_EQ(run_program(pack(whole)).code, 0);
  const std::string path = *folder_ / "killed.pnr";
  const std::string partial = path + ".partial";
  const auto size = [&] {
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(partial, error);
    return error ? 0 : bytes;
  };
  {
    test::Program program(pack(path));
    // As soon as something is there; the scope's end kills it.
    while (size() < 600'000 && !std::filesystem::exists(path)) usleep(1000);
  }
  if (!std::filesystem::exists(path)) {
    const Outcome resumed = run_program(pack(path));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_GT(resumed.json()["resumed"], 0);
    EXPECT_LE(resumed.json()["resumed"], 400);  // all, if only the renaming was left
  }
  EXPECT_FALSE(std::filesystem::exists(partial));
  EXPECT_EQ(test::read_file(path), test::read_file(whole));
}

/// A folder of some of the images, with these bytes after their ends.
std::string with_tails(const test::TempFolder& folder, const std::string& images,
                       const std::string& name, const std::vector<std::string>& tails) {
  auto file = std::filesystem::recursive_directory_iterator(images);
  for (std::size_t i = 0; i < tails.size(); ++i, ++file) {
    while (file->path().extension() != ".jpg") ++file;
    folder.write(name + "/" + std::to_string(i) + ".jpg",
                 test::read_file(file->path().string()) + tails[i]);
  }
  return folder / name;
}

TEST_F(Pack, SaysHowManyBytesFollowTheImages) {
  const auto said = [&](const std::string& name, const std::vector<std::string>& tails) {
    const std::string images = with_tails(*folder_, in(), name, tails);
    const Outcome packed = run_program(
        {"pack", "--images", images, "--jpeg", "indexed", "--out", *folder_ / (name + ".pnr")});
    EXPECT_EQ(packed.code, 0) << packed.err;
    return packed.out;
  };
  const std::string end = " dropped (--keep-tail keeps them)\n";
  EXPECT_THAT(said("no_tails", {"", ""}), testing::Not(HasSubstr("after the image's end")));
  EXPECT_THAT(said("one_tail", {"x", ""}),
              HasSubstr("\n1 file has bytes after the image's end: 1 byte" + end));
  EXPECT_THAT(
      said("zero_tails", {std::string(2, '\0'), std::string(1500, '\0')}),
      HasSubstr("\n2 files have bytes after the image's end, only zeros: 1,502 bytes" + end));
  EXPECT_THAT(said("mixed_tails", {"", test::noise(1390), std::string(64, '\0')}),
              HasSubstr("\n2 files have bytes after the image's end, 1 of them only zeros: "
                        "1,454 bytes" +
                        end));
  // Two records are there from the run before.
  const std::string path = *folder_ / "mixed_tails.pnr";
  const std::string whole = test::read_file(path);
  folder_->write("mixed_tails.pnr.partial", whole.substr(0, whole.rfind("PREC")));
  const Outcome resumed = run_program(
      {"pack", "--images", *folder_ / "mixed_tails", "--jpeg", "indexed", "--out", path});
  EXPECT_EQ(test::read_file(path), whole);
  EXPECT_THAT(resumed.out, HasSubstr("\n2 of them come from an earlier run\n"
                                     "1 file of this run has bytes after the image's end, only "
                                     "zeros: 64 bytes" +
                                     end));
}

TEST_F(Pack, KeepsTheBytesThatFollowTheImages) {
  const std::vector<std::string> tails{"", test::noise(1390), std::string(64, '\0')};
  const std::string images = with_tails(*folder_, in(), "kept_tails", tails);
  for (const char* kind : {"coefficients", "indexed"}) {
    const std::string path = *folder_ / (std::string("kept_") + kind + ".pnr");
    const Flags pack{"pack",  "--images", images,        "--jpeg", kind,
                     "--out", path,       "--keep-tail", "--json", "-"};
    const Outcome packed = run_program(pack);
    ASSERT_EQ(packed.code, 0) << packed.err;
    const json report = packed.json();
    EXPECT_EQ(report["keep_tail"], true);
    EXPECT_EQ(report["tails"], 2);
    EXPECT_EQ(report["tail_bytes"], 1454);
    EXPECT_EQ(report["zero_tails"], 1);
    EXPECT_THAT(packed.err, HasSubstr("1 of them only zeros: 1,454 bytes kept\n"));
    EXPECT_THAT(run_program({"verify", path}).out, HasSubstr("3 good, 0 bad"));
    const std::string out = *folder_ / (std::string("kept_out_") + kind);
    ASSERT_EQ(run_program({"unpack", path, "--out", out}).code, 0);
    for (std::size_t i = 0; i < tails.size(); ++i)
      EXPECT_TRUE(
          test::read_file(out + "/" + std::to_string(i) + ".jpg").ends_with("\xff\xd9" + tails[i]))
          << i;
    EXPECT_EQ(digest_of({"--images", out})["digest"], digest_of({"--images", images})["digest"]);

    std::string bytes = test::read_file(path);
    const std::size_t at = bytes.find(tails[1]);
    ASSERT_NE(at, bytes.npos);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    const std::string damaged = folder_->write("damaged_tail.pnr", bytes);
    for (const char* decode : {"--decode", "--no-decode"}) {
      const Outcome verified = run_program({"verify", damaged, decode});
      EXPECT_EQ(verified.code, 1);
      EXPECT_THAT(verified.out,
                  testing::AllOf(HasSubstr("2 good, 1 bad"), HasSubstr(damaged + " @"),
                                 HasSubstr("the tail fails its CRC32C")));
    }
    const Outcome unpacked =
        run_program({"unpack", damaged, "--out", *folder_ / (std::string("damaged_") + kind)});
    EXPECT_EQ(unpacked.code, 1);
    EXPECT_THAT(unpacked.err, HasSubstr("1.jpg: image record: the tail fails its CRC32C"));
  }
}

TEST_F(Pack, SaysHowItIsUsed) {
  EXPECT_EQ(run_program({"pack", "--images", in(), "--out", "x"}).code, 2);
  EXPECT_EQ(run_program({"pack", "--images", in(), "--jpeg", "gif", "--out", "x"}).code, 2);
  EXPECT_EQ(run_program({"pack", "--images", in(), "--jpeg", "coefficients", "--tables", "image",
                         "--out", "x"})
                .code,
            2);
  EXPECT_EQ(run_program({"profile", "--records", "x", "--header-bytes", "3"}).code, 2);
}

}  // namespace
}  // namespace penstock
