// States, caches and snapshots belong to what files hold, and not to names, sizes or times.
#include "pipeline/sources/contents.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/dataset.h>
#include <penstock/internal/crc32c.h>
#include <penstock/iterator.h>
#include <penstock/sources.h>

#include "pipeline/sources/image_records.h"
#include "pipeline/sources/image_records_writer.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/npy.h"
#include "tests/support/records.h"
#include "tests/support/tar.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;
using ::testing::HasSubstr;

std::vector<std::string> words(int variant, int count) {
  std::vector<std::string> words;
  for (int i = 0; i < count; ++i)
    words.push_back("word " + std::to_string(100 + 10 * variant + i) + " " +
                    std::string(1, static_cast<char>('a' + variant)));
  return words;
}

std::string joined(const std::vector<std::string>& words, const std::string& end) {
  std::string text;
  for (const std::string& word : words) text += word + end;
  return text;
}

std::string cifar_of(const std::vector<std::string>& words) {
  std::string file;
  for (const std::string& word : words) {
    std::string record(1, '\3');
    while (record.size() < 3073) record += word;
    file += record.substr(0, 3073);
  }
  return file;
}

std::string tar_of(const std::vector<std::string>& words) {
  std::string file;
  for (std::size_t i = 0; i < words.size(); ++i)
    file += test::tar_member(std::to_string(i) + ".txt", words[i]);
  return file + test::tar_end();
}

std::string image_records_of(const std::vector<std::string>& words) {
  const TempFolder folder;
  const std::string path = folder / "records";
  ImageRecordsWriter writer(path, records_file::make_header(ImageRecordKind::indexed, false), {},
                            nullptr);
  for (const std::string& word : words) {
    const auto image = std::as_bytes(std::span(word));
    writer.append({.key_bytes = 1,
                   .image_bytes = image.size(),
                   .original_bytes = image.size(),
                   .as_it_is = true,
                   .image_crc = crc32c(image)},
                  "k", image);
  }
  (void)writer.commit(words.size(), {"class"});
  return test::read_file(path);
}

std::string npy_of(const std::vector<std::string>& words) {
  std::string data;
  for (const std::string& word : words) data += word.substr(0, 8);
  for (const std::string& word : words) data += word.substr(word.size() - 8);
  return test::npy_of("<i8", {static_cast<std::int64_t>(2 * words.size())}, data);
}

/// A data set of two files, in variants of equal names and sizes.
struct Format {
  const char* name;
  const char* extension;
  std::string (*file)(const std::vector<std::string>& words);
  SourcePtr (*open)(const Paths& paths);
};

const Format kFormats[] = {
    {"npy", ".npy", npy_of, [](const Paths& p) { return make_npy_source(p, {}); }},
    {"cifar10", ".bin", cifar_of, [](const Paths& p) { return make_cifar10_source(p, {}); }},
    {"image_records", ".pnr", image_records_of,
     [](const Paths& p) { return make_image_records_source(p, {}); }},
    {"images", ".jpg", [](const std::vector<std::string>& w) { return joined(w, ""); },
     [](const Paths& p) { return make_images_source(fs::path(p[0]).parent_path().string(), {}); }},
    {"csv", ".csv", [](const std::vector<std::string>& w) { return "x\n" + joined(w, "\n"); },
     [](const Paths& p) {
       CsvOptions options;
       options.columns = {{.name = "x", .dtype = DType::bytes}};
       return make_csv_source(p, options);
     }},
    {"tfrecord", ".tfrecord", test::tfrecords_of,
     [](const Paths& p) { return make_tfrecord_source(p, {}); }},
    {"tar", ".tar", tar_of, [](const Paths& p) { return make_tar_source(p, {}); }},
};

class DataSet {
 public:
  DataSet(const Format& format, std::string folder) : format_(format), folder_(std::move(folder)) {
    fs::create_directories(folder_);
  }

  std::string path(char file) const { return folder_ + '/' + file + format_.extension; }
  std::string contents(char file, int variant, int count) const {
    return format_.file(words(variant + (file == 'b' ? 4 : 0), count));
  }
  void write(int variant, int count = 4) const {
    for (const char file : {'a', 'b'}) {
      std::ofstream(path(file), std::ios::binary) << contents(file, variant, count);
    }
  }
  const std::string& folder() const noexcept { return folder_; }
  Dataset open() const { return Dataset(format_.open({path('a'), path('b')})); }

 private:
  const Format& format_;
  std::string folder_;
};

/// Sets the times of the files back at the end of the scope.
class SameTimes {
 public:
  explicit SameTimes(const DataSet& data) {
    for (const char file : {'a', 'b'})
      times_.emplace_back(data.path(file), fs::last_write_time(data.path(file)));
  }
  SameTimes(const SameTimes&) = delete;
  SameTimes& operator=(const SameTimes&) = delete;
  ~SameTimes() {
    for (const auto& [path, time] : times_) fs::last_write_time(path, time);
  }

 private:
  std::vector<std::pair<std::string, fs::file_time_type>> times_;
};

/// What happens to data between two runs.
struct Change {
  const char* name;
  bool other_data;
  /// Returns the folder of the data then.
  std::string (*make)(const Format& format, const DataSet& data);
};

const Change kChanges[] = {
    {"nothing", false, [](const Format&, const DataSet& data) { return data.folder(); }},
    {"rewritten in place, same time", true,
     [](const Format&, const DataSet& data) {
       const SameTimes times(data);
       data.write(1);
       return data.folder();
     }},
    {"replaced by rename, same time", true,
     [](const Format&, const DataSet& data) {
       const SameTimes times(data);
       for (const char file : {'a', 'b'}) {
         std::ofstream(data.path(file) + "~", std::ios::binary) << data.contents(file, 1, 4);
         fs::rename(data.path(file) + "~", data.path(file));
       }
       return data.folder();
     }},
    {"one file of two", true,
     [](const Format&, const DataSet& data) {
       std::ofstream(data.path('b'), std::ios::binary) << data.contents('b', 1, 4);
       return data.folder();
     }},
    {"swapped", true,
     [](const Format&, const DataSet& data) {
       fs::rename(data.path('a'), data.path('a') + "~");
       fs::rename(data.path('b'), data.path('a'));
       fs::rename(data.path('a') + "~", data.path('b'));
       return data.folder();
     }},
    {"grown", true,
     [](const Format&, const DataSet& data) {
       data.write(0, 5);
       return data.folder();
     }},
    {"cut", true,
     [](const Format&, const DataSet& data) {
       data.write(0, 3);
       return data.folder();
     }},
    {"another folder of the same names", true,
     [](const Format& format, const DataSet& data) {
       const DataSet other(format, data.folder() + "-other");
       other.write(1);
       return other.folder();
     }},
    {"a link to other files", true,
     [](const Format& format, const DataSet& data) {
       const DataSet other(format, data.folder() + "-other");
       other.write(1);
       for (const char file : {'a', 'b'}) {
         fs::remove(data.path(file));
         fs::create_symlink(other.path(file), data.path(file));
       }
       return data.folder();
     }},
    {"renamed", false,
     [](const Format&, const DataSet& data) {
       fs::rename(data.folder(), data.folder() + "-moved");
       return data.folder() + "-moved";
     }},
    {"copied", false,
     [](const Format&, const DataSet& data) {
       fs::copy(data.folder(), data.folder() + "-copy");
       fs::remove_all(data.folder());
       return data.folder() + "-copy";
     }},
    {"linked", false,
     [](const Format&, const DataSet& data) {
       fs::create_hard_link(data.path('a'), data.folder() + "-link");
       return data.folder();
     }},
    {"touched", false,
     [](const Format&, const DataSet& data) {
       for (const char file : {'a', 'b'})
         fs::last_write_time(data.path(file), fs::file_time_type::clock::now());
       return data.folder();
     }},
    {"rewritten with the same bytes", false,
     [](const Format&, const DataSet& data) {
       data.write(0);
       return data.folder();
     }},
};

std::string rest_of(Iterator& run) {
  std::string all;
  for (Next next = run.next(); !next.is_end(); next = run.next()) {
    if (next.is_error()) {
      all += "!" + std::string(name_of(next.error().code())) + ";";
      continue;
    }
    for (std::size_t i = 0; i < next->size(); ++i) {
      const Tensor& value = next.value()[i];
      if (value.dtype() == DType::bytes) {
        all += std::string(value.bytes_at()) + ",";
      } else {
        all.append(reinterpret_cast<const char*>(value.data()), value.nbytes());
      }
    }
    all += ";";
  }
  return all;
}

std::string all_of(const Dataset& dataset, const RunOptions& options = {}) {
  Iterator run = dataset.iterate(options);
  return rest_of(run);
}

class Contents : public ::testing::TestWithParam<std::tuple<Format, Change>> {
 protected:
  Contents() : data_(std::get<0>(GetParam()), folder_ / "data") { data_.write(0); }
  const Change& change() const { return std::get<1>(GetParam()); }
  DataSet changed() const {
    const Format& format = std::get<0>(GetParam());
    return DataSet(format, change().make(format, data_));
  }

  TempFolder folder_;
  DataSet data_;
};

TEST_P(Contents, State) {
  std::string state, rest;
  {
    Iterator run = data_.open().iterate({});
    (void)run.next();
    state = run.save();
    rest = rest_of(run);
  }
  EXPECT_LE(state.size(), 4096u);
  const DataSet now = changed();
  if (!change().other_data) {
    Iterator run = now.open().restore(state);
    EXPECT_EQ(rest_of(run), rest);
    return;
  }
  const std::optional<Error> error = test::thrown_by([&] { (void)now.open().restore(state); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
  EXPECT_THAT(error->what(), HasSubstr("the state was saved from "));
}

TEST_P(Contents, Cache) {
  const std::string file = folder_ / "cache";
  const auto cached = [&](const DataSet& data) { return all_of(data.open().cache(file)); };
  (void)cached(data_);
  const std::uint64_t inode = default_file_system()->info(file).inode;
  const DataSet now = changed();
  EXPECT_EQ(cached(now), all_of(now.open()));
  EXPECT_TRUE(change().other_data || default_file_system()->info(file).inode == inode)
      << "was made again";
  EXPECT_EQ(cached(now), all_of(now.open()));
}

TEST_P(Contents, Snapshot) {
  const std::string kept = folder_ / "snapshots";
  const auto cached = [&](const DataSet& data) { return all_of(data.open().snapshot(kept)); };
  (void)cached(data_);
  const DataSet now = changed();
  EXPECT_EQ(cached(now), all_of(now.open()));
  EXPECT_EQ(cached(now), all_of(now.open()));
  EXPECT_EQ(default_file_system()->list(kept).size(), change().other_data ? 2u : 1u);
}

INSTANTIATE_TEST_SUITE_P(Of, Contents,
                         ::testing::Combine(::testing::ValuesIn(kFormats),
                                            ::testing::ValuesIn(kChanges)),
                         [](const auto& tested) {
                           std::string name = std::string(std::get<0>(tested.param).name) + "_" +
                                              std::get<1>(tested.param).name;
                           std::erase_if(name, [](char c) { return c == ','; });
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

TEST(ContentsText, NamesTheFile) {
  const TempFolder folder;
  const DataSet data(kFormats[0], folder / "data");
  data.write(0);
  Iterator run = data.open().iterate({});
  (void)run.next();
  const std::string state = run.save();
  (void)all_of(data.open().cache(folder / "cache"));
  (void)all_of(data.open().snapshot(folder / "snapshots"));
  std::ofstream(data.path('b'), std::ios::binary) << data.contents('b', 1, 4);

  const std::optional<Error> error = test::thrown_by([&] { (void)data.open().restore(state); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("b.npy of npy[0] has other contents"));
  const test::LogCapture log;
  (void)all_of(data.open().cache(folder / "cache"));
  EXPECT_EQ(log.count("cache was made from other data (b.npy of npy[0] has other contents)"), 1u);
  (void)all_of(data.open().snapshot(folder / "snapshots"));
  EXPECT_EQ(log.count("was made from other data (b.npy of npy[0] has other contents)"), 2u);
}

TEST(ContentsText, NamesTheRangeOfManyFiles) {
  const TempFolder folder;
  for (int i = 0; i < 1000; ++i)
    folder.write("data/" + std::to_string(1000 + i) + ".jpg", std::to_string(i));
  const auto open = [&] { return Dataset(make_images_source(folder / "data", {})); };
  const std::string state = open().iterate({}).save();
  EXPECT_LE(state.size(), 4096u);
  folder.write("data/1500.jpg", "005");
  const std::optional<Error> error = test::thrown_by([&] { (void)open().restore(state); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), ::testing::ContainsRegex("1[45]..\\.jpg to 15..\\.jpg of images"));
}

TEST(ContentsText, TrustedData) {
  const TempFolder folder;
  const DataSet data(kFormats[0], folder / "data");
  data.write(0);
  Iterator run = data.open().iterate({});
  (void)run.next();
  const std::string state = run.save();
  const std::string cached = all_of(data.open().cache(folder / "cache"));
  const std::string kept = all_of(data.open().snapshot(folder / "snapshots"));
  data.write(1);
  const RunOptions trusting{.trust_data = true};
  EXPECT_NO_THROW((void)data.open().restore(state, trusting));
  EXPECT_EQ(all_of(data.open().cache(folder / "cache"), trusting), cached);
  EXPECT_EQ(all_of(data.open().snapshot(folder / "snapshots"), trusting), kept);
  const std::string unchecked = data.open().iterate(trusting).save();
  EXPECT_NO_THROW((void)data.open().restore(unchecked));
}

TEST(ContentsText, StateOfAnotherVersion) {
  const Dataset data = range(10);
  std::string state = data.iterate({}).save();
  state.replace(state.find(" 6\n"), 3, " 5\n");
  const std::optional<Error> error = test::thrown_by([&] { (void)data.restore(state); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
  EXPECT_THAT(error->what(),
              HasSubstr("penstock state 5, and this version reads penstock state 6"));
}

}  // namespace
}  // namespace penstock
