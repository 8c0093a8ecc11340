#include "pipeline/sources/npy_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <optional>
#include <vector>

#include <penstock/internal/other_format.h>

namespace penstock {
namespace {

constexpr std::string_view kNpyMagic("\x93NUMPY", 6);
constexpr std::uint64_t kLongestHeader = 64 << 10;

class DictionaryParser {
 public:
  DictionaryParser(std::string_view text, const std::string& path, std::uint64_t offset)
      : text_(text), path_(path), offset_(offset) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !descr_) {
        descr_ = true;
        dtype();
      } else if (key == "fortran_order" && !order_) {
        order_ = true;
        header_.fortran_order = boolean();
      } else if (key == "shape" && !shape_) {
        shape_ = true;
        header_.shape = shape();
      } else {
        fail("an entry '" + std::string(key.substr(0, 40)) + "' that is unknown or repeated");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    space();
    if (at_ < text_.size()) fail("text behind the dictionary");
    if (!descr_ || !order_ || !shape_) fail("no entry 'descr', 'fortran_order' or 'shape'");
    return header_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::data_loss, "the .npy header has " + what,
                {.shard = path_, .offset = static_cast<std::int64_t>(offset_ + at_), .stage = {}});
  }

  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  char peek() {
    space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  bool accept_word(std::string_view word) {
    space();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("expected a string");
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\\') ++at_;
    if (at_ == text_.size() || text_[at_] != quote) fail("an unterminated string");
    return text_.substr(begin, at_++ - begin);
  }

  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    fail("no True or False for 'fortran_order'");
  }

  Shape shape() {
    expect('(');
    std::vector<std::int64_t> dims;
    while (!accept(')')) {
      space();
      std::int64_t dim = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), dim);
      if (error != std::errc() || dim < 0) fail("expected a dimension");
      at_ += static_cast<std::size_t>(end - begin);
      accept('L');
      if (dims.size() == kMaxRank) fail("more dimensions than " + std::to_string(kMaxRank));
      dims.push_back(dim);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return Shape(std::span<const std::int64_t>(dims));
  }

  void dtype() {
    if (peek() == '[' || peek() == '(') unsupported("a structured dtype");
    struct Known {
      std::string_view code;
      DType dtype;
    };
    // NumPy has no bfloat16. ml_dtypes, which JAX uses, writes its own as two bytes of no type.
    static constexpr std::array<Known, 14> kKnown = {{{"b1", DType::boolean},
                                                      {"i1", DType::i8},
                                                      {"u1", DType::u8},
                                                      {"i2", DType::i16},
                                                      {"u2", DType::u16},
                                                      {"i4", DType::i32},
                                                      {"u4", DType::u32},
                                                      {"i8", DType::i64},
                                                      {"u8", DType::u64},
                                                      {"f2", DType::f16},
                                                      {"V2", DType::bf16},
                                                      {"bfloat16", DType::bf16},
                                                      {"f4", DType::f32},
                                                      {"f8", DType::f64}}};
    const std::string_view descr = string();
    if (descr.size() < 2) fail("an empty dtype");
    const bool ordered = std::string_view("<>=|").find(descr[0]) != std::string_view::npos;
    const bool named = descr == "V2" || descr == "bfloat16";
    const char order = ordered ? descr[0] : '=';
    const auto known = std::ranges::find(kKnown, descr.substr(ordered ? 1 : 0), &Known::code);
    if (known == kKnown.end() || !(ordered || named)) {
      const bool object = descr.find('O') != std::string_view::npos;
      unsupported((object ? "Python objects, dtype '" : "dtype '") +
                  std::string(descr.substr(0, 40)) + "'");
    }
    header_.dtype = known->dtype;
    constexpr char kForeign = std::endian::native == std::endian::little ? '>' : '<';
    header_.swapped = order == kForeign && size_of(known->dtype) > 1;
  }

  [[noreturn]] void unsupported(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument,
                "the .npy file holds " + what + ", which tensors do not support",
                {.shard = path_, .offset = static_cast<std::int64_t>(offset_ + at_), .stage = {}});
  }

  std::string_view text_;
  const std::string& path_;
  std::uint64_t offset_;
  std::size_t at_ = 0;
  bool descr_ = false;
  bool order_ = false;
  bool shape_ = false;
  NpyHeader header_;
};

}  // namespace

NpyHeader parse_npy_dictionary(std::string_view text, const std::string& path,
                               std::uint64_t offset) {
  return DictionaryParser(text, path, offset).parse();
}

NpyHeader read_npy_header(File& file) {
  const std::uint64_t size = file.info().size;
  const auto damaged = [&](const std::string& what, std::uint64_t offset) {
    return Error(ErrorCode::data_loss, what,
                 {.shard = file.path(), .offset = static_cast<std::int64_t>(offset), .stage = {}});
  };
  std::array<std::byte, 12> start{};
  file.read_exactly(0, std::span(start).first(std::min<std::uint64_t>(size, start.size())));
  const std::string_view magic(reinterpret_cast<const char*>(start.data()), kNpyMagic.size());
  if (size >= kNpyMagic.size() && magic != kNpyMagic) {
    refuse_other_format(file);
    throw damaged("not a .npy file", 0);
  }
  const int version = std::to_integer<int>(start[6]);
  const std::uint64_t length_bytes = version == 1 ? 2 : 4;
  const std::uint64_t begin = 8 + length_bytes;
  if (size < begin) throw damaged("truncated at byte " + std::to_string(size), size);
  if (version < 1 || version > 3) {
    throw damaged("version " + std::to_string(version) + " of the .npy format is unknown", 6);
  }
  std::uint64_t length = 0;
  for (std::uint64_t i = length_bytes; i > 0; --i) {
    length = length << 8 | std::to_integer<std::uint64_t>(start[7 + i]);
  }
  if (length > kLongestHeader) {
    throw damaged("a .npy header of " + std::to_string(length) + " bytes", 8);
  }
  if (length > size - begin) throw damaged("truncated at byte " + std::to_string(size), size);
  std::string text(length, '\0');
  file.read_exactly(begin, std::as_writable_bytes(std::span(text)));
  NpyHeader header = parse_npy_dictionary(text, file.path(), begin);
  header.data_offset = begin + length;
  return header;
}

}  // namespace penstock
