// The source that reads CSV files.
#include <penstock/sources.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "pipeline/sources/csv_format.h"
#include "pipeline/sources/near_name.h"
#include "pipeline/sources/shards.h"
#include "pipeline/sources/text_records.h"

namespace penstock {
namespace {

constexpr const char* kChoose = "list the columns to keep with --columns (CsvOptions::columns)";

std::string unescaped(const CsvField& field) {
  if (!field.escaped) return std::string(field.text);
  std::string text(field.text.size(), '\0');
  text.resize(unescape_csv(field.text, text.data()));
  return text;
}

/// True if a record has more than one field.
bool has_fields(std::string_view record, char delimiter) {
  std::vector<CsvField> fields;
  split_csv(without_csv_end(record), delimiter, fields);
  return fields.size() > 1;
}

TextFormat format_of(const CsvOptions& options) {
  const char delimiter = options.delimiter;
  if (delimiter == '"' || delimiter == '\n' || delimiter == '\r') {
    throw Error(ErrorCode::invalid_argument, "a quote or an end of line can't delimit fields");
  }
  std::string blanks = " \t\r\n";
  std::erase(blanks, delimiter);
  return {
      .kind = std::string("csv 2 ") + delimiter + (options.header ? " header" : ""),
      .make_scanner = [delimiter] { return make_csv_scanner(delimiter); },
      .byte_order_mark = true,
      .header = options.header,
      .blanks = std::move(blanks),
      .has_fields = [delimiter](std::string_view first) { return has_fields(first, delimiter); }};
}

/// The position of each name among the fields. Names that occur more than once have none.
using Positions = std::map<std::string_view, std::optional<std::size_t>>;
Positions places_of(const std::vector<std::string>& fields) {
  Positions places;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto [place, is_new] = places.emplace(fields[i], i);
    if (!is_new) place->second.reset();
  }
  return places;
}

/// True if an unquoted field of the record has a \r.
bool has_carriage_return(std::string_view record, std::span<const CsvField> fields) {
  return std::ranges::any_of(fields, [&](const CsvField& field) {
    const bool quoted = field.text.data() > record.data() && field.text.data()[-1] == '"';
    return !quoted && field.text.find('\r') != std::string_view::npos;
  });
}

/// A field that becomes a component.
struct Kept {
  std::size_t field;
  DType dtype;
  std::optional<Tensor> if_empty;
  std::string default_text;
};

class CsvSource final : public Source {
 public:
  CsvSource(const Paths& paths, const CsvOptions& options)
      : delimiter_(options.delimiter),
        header_(options.header),
        na_values_(options.na_values.begin(), options.na_values.end()),
        records_(paths, options, format_of(options)) {
    const std::vector<std::string> fields = read_fields();
    field_count_ = fields.size();
    std::vector<CsvOptions::Column> columns = options.columns;
    if (columns.empty()) {
      for (const std::string& field : fields) columns.push_back({.name = field});
    }
    std::vector<ComponentSpec> components;
    std::vector<std::string> names;
    const Positions places = places_of(fields);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      keep(columns[i], fields, places, i);
      components.push_back({columns[i].name, columns[i].dtype, {}});
      names.push_back(columns[i].name);
    }
    spec_ = Spec(std::move(components));
    names_ = Names::intern(names);
  }

  std::string name() const override { return "csv"; }
  void describe(Description& description) const override {
    description.add("delimiter", std::string_view(&delimiter_, 1));
    description.add("header", header_);
    for (const std::string& value : na_values_) description.add("na_value", value);
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      std::string column = spec_[i].name + " " + std::string(name_of(kept_[i].dtype));
      if (kept_[i].if_empty) column += " default '" + kept_[i].default_text + "'";
      description.add("column", column);
    }
    records_.describe(description);
  }
  Spec spec() const override { return spec_; }
  std::optional<std::uint64_t> size() const override { return records_.size(); }
  bool blocking() const override { return records_.blocking(); }
  bool shares_buffers() const override { return true; }
  std::uint64_t record_bytes(std::uint64_t index) const override {
    return records_.record_bytes(index);
  }
  Provenance locate(std::uint64_t index) const override { return records_.locate(index); }

  void read(std::span<ReadItem> items, ReadContext& context) const override {
    thread_local std::vector<CsvField> fields;
    records_.read(items, context,
                  [&](std::size_t i, std::string_view record, const BufferPtr& owner) {
                    parse(record, owner, fields, items[i], context);
                  });
  }

 private:
  std::vector<std::string> read_fields() const;
  void keep(const CsvOptions::Column& column, const std::vector<std::string>& fields,
            const Positions& places, std::size_t position);
  void parse(std::string_view record, const BufferPtr& owner, std::vector<CsvField>& fields,
             ReadItem& item, ReadContext& context) const;
  bool means_missing(const CsvField& field, DType dtype) const;
  Tensor value_of(const CsvField& field, std::size_t i, const BufferPtr& owner,
                  ReadContext& context) const;

  char delimiter_;
  bool header_;
  std::set<std::string, std::less<>> na_values_;
  TextRecords records_;
  std::size_t field_count_ = 0;
  std::vector<Kept> kept_;
  Spec spec_;
  const Names* names_ = nullptr;
};

// Returns the names of the fields: those of the header, or numbers.
std::vector<std::string> CsvSource::read_fields() const {
  const std::string* first = nullptr;
  std::vector<CsvField> fields;
  for (std::size_t i = 0; i < records_.shards().size(); ++i) {
    const std::string& path = records_.shards().path(i);
    const std::string* record = records_.first_record(i);
    if (const IndexFault* fault = records_.first_fault(i))
      throw Error(fault->code, fault->cause, {.shard = path, .stage = {}});
    if (record == nullptr && header_) throw refused(path, "the file is empty: it has no header");
    if (record == nullptr) continue;
    if (record->size() > TextRecords::kLongestFirst)
      throw refused(path, std::string(header_ ? "its header" : "its first record") +
                              " is longer than 1 MiB, which is the limit for it");
    if (first == nullptr) {
      first = record;
      // If only \r ends the lines, the whole file is its first record.
      const bool ends = record->ends_with('\n');
      const std::string problem =
          split_csv(ends ? without_csv_end(*first) : *first, delimiter_, fields);
      if (!problem.empty()) throw refused(path, "the first record has " + problem);
      if ((header_ || !ends) && has_carriage_return(*first, fields))
        throw refused(path,
                      "the first record has carriage returns: lines must end with \\n or \\r\\n, "
                      "as tr '\\r' '\\n' makes them");
    } else if (header_ && without_csv_end(*record) != without_csv_end(*first)) {
      throw refused(path, "its header differs from that of " + records_.shards().path(0));
    }
  }
  if (first == nullptr) throw refused(records_.shards().path(0), "the file is empty");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    std::string number = "c";
    number += std::to_string(i);
    // pandas writes the numbers of rows into a first column without a name.
    const bool row_numbers = i == 0 && fields.size() > 1 && fields[0].text.empty();
    names.push_back(header_ && !row_numbers ? unescaped(fields[i]) : std::move(number));
  }
  return names;
}

/// Returns the names that the header has, or the one that was probably meant.
std::string names_in_header(const std::string& name, const std::vector<std::string>& fields) {
  constexpr std::size_t kMost = 10;
  std::string text = near_name(name, fields);
  if (!text.empty()) return "; the header has " + text;
  for (std::size_t i = 0; i < std::min(fields.size(), kMost); ++i)
    text += (i == 0 ? "'" : ", '") + fields[i] + "'";
  return "; the header has " + text + (fields.size() > kMost ? ", …" : "");
}

void CsvSource::keep(const CsvOptions::Column& column, const std::vector<std::string>& fields,
                     const Positions& places, std::size_t position) {
  const std::string& path = records_.shards().path(0);
  if (column.name.empty()) {
    throw refused(path, "column " + std::to_string(position) + " has no name; " + kChoose);
  }
  std::size_t field = position;
  if (header_) {
    const auto found = places.find(column.name);
    if (found == places.end())
      throw refused(path, "no column '" + column.name + "'" + names_in_header(column.name, fields));
    if (!found->second)
      throw refused(path, "two columns are named '" + column.name + "'; " + kChoose);
    field = *found->second;
  } else if (position >= field_count_) {
    throw refused(path, "no field for column '" + column.name + "': records have " +
                            std::to_string(field_count_));
  }
  std::optional<Tensor> if_empty;
  if (column.dtype == DType::bytes) {
    if_empty = Tensor::copy_bytes(column.default_value.value_or(""));
  } else if (column.dtype != DType::i64 && column.dtype != DType::f32 &&
             column.dtype != DType::f64) {
    throw refused(path, "column '" + column.name + "' can be bytes, i64, f32 or f64, not " +
                            std::string(name_of(column.dtype)));
  } else if (column.default_value) {
    try {
      if_empty = parse_number(*column.default_value, column.dtype);
    } catch (const Error& error) {
      throw refused(path, "the default of column '" + column.name + "': " + error.cause());
    }
  }
  kept_.push_back({field, column.dtype, std::move(if_empty), column.default_value.value_or("")});
}

void CsvSource::parse(std::string_view record, const BufferPtr& owner,
                      std::vector<CsvField>& fields, ReadItem& item, ReadContext& context) const {
  const std::string problem = split_csv(without_csv_end(record), delimiter_, fields);
  if (!problem.empty()) {
    item.status = Status(ErrorCode::data_loss, "the record has " + problem);
    return;
  }
  if (fields.size() != field_count_) {
    item.status = Status(ErrorCode::data_loss, "the record has " + std::to_string(fields.size()) +
                                                   " fields, not " + std::to_string(field_count_));
    return;
  }
  item.element.reset(names_);
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    try {
      item.element[i] = value_of(fields[kept_[i].field], i, owner, context);
    } catch (const Error& error) {
      item.status =
          Status(error.code(), "column '" + spec_[i].name + "': " + std::string(error.cause()));
      return;
    }
  }
}

bool CsvSource::means_missing(const CsvField& field, DType dtype) const {
  if (na_values_.empty()) return false;
  if (field.escaped) return na_values_.contains(unescaped(field));
  return na_values_.contains(field.text) ||
         (dtype != DType::bytes && na_values_.contains(trimmed_number(field.text)));
}

Tensor CsvSource::value_of(const CsvField& field, std::size_t i, const BufferPtr& owner,
                           ReadContext& context) const {
  const Kept& kept = kept_[i];
  if (field.text.empty() || means_missing(field, kept.dtype)) {
    if (kept.if_empty) return *kept.if_empty;
    throw Error(ErrorCode::data_loss,
                (field.text.empty()
                     ? std::string("the field is empty")
                     : "'" + std::string(field.text.substr(0, 40)) + "' means a missing value") +
                    " and has no default; " + spec_[i].name + ":" +
                    std::string(name_of(kept.dtype)) + "=0 gives it one (CsvOptions::Column)");
  }
  if (kept.dtype != DType::bytes) return parse_number(field.text, kept.dtype);
  if (!field.escaped) return Tensor::bytes(field.text, owner);
  BufferPtr memory = context.allocate(field.text.size());
  char* out = reinterpret_cast<char*>(memory->data());
  const std::string_view text(out, unescape_csv(field.text, out));
  return Tensor::bytes(text, std::move(memory));
}

}  // namespace

SourcePtr make_csv_source(const Paths& paths, const CsvOptions& options) {
  return std::make_shared<CsvSource>(paths, options);
}

}  // namespace penstock
