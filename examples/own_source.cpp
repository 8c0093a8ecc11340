// A source of your own: a file format that Penstock does not know, read at random by index.
//
//     own_source [FILE]
//
// The format: a record is its length (u32, little-endian), the sum of its bytes (u32) and the
// bytes. Without a FILE it reads one from memory, in which the third record is damaged.
//
// Prints:
//     {text: bytes []}, 5 elements
//     fail: kilo oscar | the bytes fail their sum (words.rec @24 record 2, stage words[0]) | lima
//     skip: kilo oscar | november lima
//
// With `fail` the batch of the damaged record is lost (november was in it), and the error stands in
// its place. With `skip` it is as if the record had never been there.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/penstock.h>

namespace ps = penstock;

namespace {

constexpr std::size_t kHeaderBytes = 8;

std::uint32_t sum_of(std::string_view bytes) {
  std::uint32_t sum = 0;
  for (const char c : bytes) sum += static_cast<unsigned char>(c);
  return sum;
}

// A source that knows how many records it has and can read any of them: it can be shuffled
// perfectly, sharded and resumed without reading what is skipped. Immutable, so that many
// threads may read.
class WordsSource final : public ps::Source {
 public:
  // One pass over the headers finds the records. Each length is checked against the bytes that
  // remain before it is believed.
  WordsSource(std::shared_ptr<ps::File> file, ps::Limits limits) : file_(std::move(file)) {
    std::uint64_t at = 0;
    while (at < file_->info().size) {
      const std::uint64_t left = file_->info().size - at;
      std::uint32_t header[2] = {};
      if (left >= kHeaderBytes) file_->read_exactly(at, std::as_writable_bytes(std::span(header)));
      if (left < kHeaderBytes || header[0] > left - kHeaderBytes) fail(at, "truncated");
      if (header[0] > limits.max_record_bytes) fail(at, "longer than the limit");
      records_.push_back({at, header[0], header[1]});
      at += kHeaderBytes + header[0];
    }
  }

  std::string name() const override { return "words"; }
  // Whatever decides what comes out, so that graphs can be told apart.
  void describe(ps::Description& description) const override {
    description.add_shard(file_->path(), file_->info().size);
  }
  ps::Spec spec() const override { return ps::Spec({{"text", ps::DType::bytes, {}}}); }
  std::optional<std::uint64_t> size() const override { return records_.size(); }
  // True keeps `read` off the compute threads.
  bool blocking() const override { return file_->blocking(); }
  // Reserved in the memory budget before `read` is called.
  std::uint64_t record_bytes(std::uint64_t index) const override { return records_[index].size; }
  // Where errors say that the record lies.
  ps::Provenance locate(std::uint64_t index) const override {
    return {.shard = file_->path(),
            .offset = static_cast<std::int64_t>(records_[index].offset),
            .index = static_cast<std::int64_t>(index)};
  }

  // A record that fails sets its own status and leaves the others alone.
  void read(std::span<ps::ReadItem> items, ps::ReadContext& context) const override {
    for (ps::ReadItem& item : items) {
      const Record& record = records_[item.index];
      try {
        const ps::BufferPtr buffer = context.allocate(record.size);
        file_->read_exactly(record.offset + kHeaderBytes, {buffer->data(), record.size});
        const std::string_view text(reinterpret_cast<const char*>(buffer->data()), record.size);
        if (sum_of(text) != record.sum) {
          throw ps::Error(ps::ErrorCode::data_loss, "the bytes fail their sum");
        }
        item.element = ps::Element({{"text", ps::Tensor::bytes(text, buffer)}});
      } catch (...) {
        item.status = ps::status_from_current_exception();
      }
    }
  }

 private:
  struct Record {
    std::uint64_t offset;
    std::uint32_t size;
    std::uint32_t sum;
  };

  [[noreturn]] void fail(std::uint64_t at, const std::string& cause) const {
    throw ps::Error(ps::ErrorCode::data_loss, "record " + cause,
                    {.shard = file_->path(), .offset = static_cast<std::int64_t>(at)});
  }

  std::shared_ptr<ps::File> file_;
  std::vector<Record> records_;
};

ps::Dataset words(const std::string& path, const ps::FileSystemPtr& files) {
  return ps::Dataset(std::make_shared<WordsSource>(files->open(path), ps::Limits{}));
}

std::string made_up_file() {
  std::string file;
  for (const std::string text : {"kilo", "lima", "mike", "november", "oscar"}) {
    const std::uint32_t header[2] = {static_cast<std::uint32_t>(text.size()), sum_of(text)};
    file.append(reinterpret_cast<const char*>(header), sizeof(header)).append(text);
  }
  file[file.find("mike")] = 'p';
  return file;
}

// Every batch in the order of delivery, an error in its place.
std::string run(const ps::Dataset& dataset, ps::OnError on_error) {
  std::string text;
  ps::Iterator iterator = dataset.iterate({.seed = 2, .on_error = on_error});
  while (ps::Next next = iterator.next()) {
    if (!text.empty()) text += " | ";
    if (next.is_error()) {
      text += next.error().what();
      continue;
    }
    for (std::int64_t i = 0; i < next->valid_rows; ++i) {
      text.append(i > 0 ? " " : "").append((*next)["text"].bytes_at(i));
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  const ps::FileSystemPtr files =
      argc > 1 ? ps::default_file_system()
               : ps::make_memory_file_system({{"words.rec", made_up_file()}});
  const ps::Dataset dataset = words(argc > 1 ? argv[1] : "words.rec", files);
  std::printf("%s, %d elements\n", dataset.spec().to_string().c_str(),
              static_cast<int>(dataset.cardinality()));

  const ps::Dataset batches = dataset.shuffle().batch(2);
  std::printf("fail: %s\n", run(batches, ps::OnError::fail).c_str());
  std::printf("skip: %s\n", run(batches, ps::OnError::skip).c_str());
} catch (const ps::Error& error) {
  std::fprintf(stderr, "own_source: %s\n", error.what());
  return 1;
}
