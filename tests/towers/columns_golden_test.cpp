// Feature columns, layers and updates against what TensorFlow makes of the same rows; see
// tests/golden/columns_tf.py. $PENSTOCK_COLUMNS_GOLDEN is another folder of its making.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/iterator.h>
#include <penstock/sources.h>
#include <penstock/towers/optimizer.h>

#include <penstock/towers/columns/input_layer.h>
#include "tests/support/places.h"
#include "tools/penstock/run/columns_file.h"
#include "towers/batch_rows.h"
#include "towers/train/updater.h"

namespace penstock::towers {
namespace {

using Values = std::vector<double>;

std::string folder() {
  const char* other = std::getenv("PENSTOCK_COLUMNS_GOLDEN");
  return other != nullptr ? other : penstock::test::source_dir() + "/tests/golden/columns";
}

/// Lines whose name begins with `kind`, by the rest of it.
std::map<std::string, Values> golden(const std::string& kind, int words) {
  static const std::vector<std::string> lines = [] {
    std::vector<std::string> all;
    std::ifstream in(folder() + "/expected.txt");
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }();
  std::map<std::string, Values> found;
  for (const std::string& line : lines) {
    if (!line.starts_with(kind + " ")) continue;
    std::istringstream text(line.substr(kind.size() + 1));
    std::string name;
    for (int i = 0; i < words; ++i) {
      std::string word;
      text >> word;
      name += (i > 0 ? " " : "") + word;
    }
    Values& values = found[name];
    for (double value = 0; text >> value;) values.push_back(value);
  }
  return found;
}

const ColumnModel& model() {
  static const ColumnModel loaded = tool::load_columns(folder() + "/columns.toml");
  return loaded;
}

const std::vector<std::string>& rows() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> texts;
    std::ifstream in(folder() + "/rows.hex");
    for (std::string line; std::getline(in, line);) {
      std::string& bytes = texts.emplace_back();
      for (std::size_t i = 0; i + 1 < line.size(); i += 2)
        bytes += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
    }
    return texts;
  }();
  return all;
}

/// The batch that these columns make of rows.
Element batch_of(const std::vector<std::size_t>& which, const std::vector<ColumnPtr>& columns) {
  std::vector<std::string_view> views;
  for (const std::size_t row : which) views.emplace_back(rows()[row]);
  const Dataset records = tensors({{"record", Tensor::of_bytes(views)}});
  const Dataset elements =
      transform_columns(records.map_op(parse_example(parse_spec(columns))), columns);
  Element batch;
  for (Element& one :
       batch_rows(elements, static_cast<std::int64_t>(which.size())).iterate({.threads = 1}))
    batch = std::move(one);
  return batch;
}

std::vector<std::size_t> all_rows(std::size_t most = SIZE_MAX) {
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < std::min(most, rows().size()); ++i) which.push_back(i);
  return which;
}

void fill(VariableStore& store, double phase) {
  for (Variable* variable : store.of(0))
    for (std::size_t i = 0; i < variable->value.size(); ++i)
      variable->value.data()[i] =
          static_cast<float>(std::sin(0.7 * static_cast<double>(i) + phase));
}

Array wave(const Shape& shape, double phase) {
  Array array(shape);
  for (std::size_t i = 0; i < array.size(); ++i)
    array.data()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + phase));
  return array;
}

/// Equal to `tolerance`, of numbers above 1 relative to them. One failure is shown of many.
void expect_near(const std::string& what, const Values& wanted, const float* got, std::size_t count,
                 double tolerance) {
  ASSERT_EQ(count, wanted.size()) << what;
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), wanted[i],
                tolerance * std::max(1.0, std::abs(wanted[i])))
        << what << " at " << i;
}

TEST(ColumnsGolden, Ids) {
  const std::map<std::string, Values> all = golden("ids", 2);
  const std::vector<ColumnPtr> columns = model().part("ids");
  ASSERT_EQ(all.size(), columns.size() * rows().size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const Element element = batch_of(all_rows(), {columns[c]});
    const Batch batch(element);
    const BatchIds ids = ids_of(batch, *columns[c]);
    for (std::size_t row = 0; row < rows().size(); ++row) {
      Values got;
      const auto at = static_cast<std::int64_t>(row);
      for (std::int64_t i = ids.begin(at); i < ids.end(at); ++i)
        got.push_back(static_cast<double>(ids.ids[static_cast<std::size_t>(i)]));
      ASSERT_EQ(got, all.at(std::to_string(c) + " " + std::to_string(row)))
          << columns[c]->name << " in row " << row;
    }
  }
}

TEST(ColumnsGolden, InputLayers) {
  const std::map<std::string, Values> all = golden("dense", 2);
  const std::vector<ColumnPtr> columns = model().part("dense");
  ASSERT_EQ(all.size(), columns.size() * rows().size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const Element element = batch_of(all_rows(), {columns[c]});
    VariableStore store(1, 0);
    Tables tables(store.tower(0));
    InputLayer layer(tables, {columns[c]});
    fill(store, 2);
    const Array& out = layer.forward(Batch(element));
    for (std::size_t row = 0; row < rows().size(); ++row)
      expect_near(columns[c]->name, all.at(std::to_string(c) + " " + std::to_string(row)),
                  out.data() + static_cast<std::int64_t>(row) * layer.width(),
                  static_cast<std::size_t>(layer.width()), 1e-6);
  }
}

TEST(ColumnsGolden, LinearModels) {
  const std::map<std::string, Values> all = golden("linear", 1);
  const std::vector<ColumnPtr> columns = model().part("linear");
  ASSERT_EQ(all.size(), rows().size());
  const Element element = batch_of(all_rows(), columns);
  VariableStore store(1, 0);
  Tables tables(store.tower(0));
  LinearModel linear(tables, columns, 2);
  fill(store, 3);
  const Array& out = linear.forward(Batch(element));
  for (std::size_t row = 0; row < rows().size(); ++row)
    expect_near("linear", all.at(std::to_string(row)), out.data() + 2 * row, 2,
                4e-6);  // sums of many terms, in another order
}

TEST(ColumnsGolden, Sequences) {
  const std::map<std::string, Values> steps = golden("steps", 1);
  const std::map<std::string, Values> values = golden("sequence", 1);
  const std::vector<ColumnPtr> columns = model().part("sequence");
  ASSERT_EQ(steps.size(), rows().size());
  const Element element = batch_of(all_rows(), columns);
  VariableStore store(1, 0);
  Tables tables(store.tower(0));
  SequenceLayer layer(tables, columns);
  fill(store, 2);
  const Array& out = layer.forward(Batch(element));
  for (std::size_t row = 0; row < rows().size(); ++row) {
    const std::string name = std::to_string(row);
    ASSERT_EQ(static_cast<double>(layer.lengths()[row]), steps.at(name)[0]) << row;
    expect_near("sequence " + name, values.at(name),
                out.data() + static_cast<std::int64_t>(row) * out.row_size(),
                static_cast<std::size_t>(layer.lengths()[row] * layer.width()), 1e-6);
  }
}

/// What the tables of the part `layer` are trained with.
struct Trained {
  explicit Trained(const std::string& rule, double rate = 0.01)
      : store(1, 0),
        tables(store.tower(0)),
        layer(tables, model().part("layer")),
        updater(store.of(0), {make_optimizer(rule), Schedule::constant(rate)}) {
    fill(store, 2);
  }

  void begin() {
    for (Variable* variable : store.of(0)) variable->begin_step();
  }
  /// Compares rows of tables, or of their gradients.
  void expect(const std::string& kind, const std::map<std::string, Values>& all, bool gradients) {
    for (const auto& [where, wanted] : all) {
      const std::size_t space = where.find(' ');
      const std::string name = where.substr(0, space) + "/embedding_weights";
      const auto found =
          std::ranges::find(store.of(0), name, [](const Variable* v) { return v->name; });
      ASSERT_NE(found, store.of(0).end()) << name;
      const Array& values = gradients ? (*found)->gradient : (*found)->value;
      expect_near(kind + " " + where, wanted,
                  values.data() + std::stoll(where.substr(space + 1)) * values.row_size(),
                  static_cast<std::size_t>(values.row_size()), 1e-5);
    }
  }

  VariableStore store;
  Tables tables;
  InputLayer layer;
  Updater updater;
};

TEST(ColumnsGolden, GradientsOfTables) {
  Trained trained("adam");
  ASSERT_EQ(static_cast<double>(trained.layer.width()), golden("layer", 0).at("")[0]);
  const Element element = batch_of(all_rows(64), model().part("layer"));
  trained.begin();
  const Array& out = trained.layer.forward(Batch(element));
  trained.layer.backward(wave(out.shape(), 4));
  const auto all = golden("gradient", 2);
  trained.expect("gradient", all, true);
  std::size_t rows_with_gradient = 0;
  for (const Variable* variable : trained.store.of(0))
    for (std::int64_t row = 0; row < variable->value.dim(0); ++row) {
      const float* const values = variable->gradient.data() + row * variable->value.row_size();
      rows_with_gradient +=
          std::any_of(values, values + variable->value.row_size(), [](float g) { return g != 0; })
              ? 1
              : 0;
    }
  EXPECT_EQ(rows_with_gradient, all.size());
}

TEST(ColumnsGolden, FiftyUpdates) {
  const std::size_t count = std::min<std::size_t>(64, rows().size());
  // With an epsilon that counts for nothing: TensorFlow has another meaning for it.
  for (const auto& [name, rule] : std::map<std::string, std::string>{
           {"adam", "adam:0.9:0.999:1e-15"}, {"momentum", "momentum:0.9"}}) {
    Trained trained(rule, name == "adam" ? 0.01 : 0.001);
    for (std::size_t step = 0; step < 50; ++step) {
      std::vector<std::size_t> which;
      for (std::size_t k = 0; k < 8; ++k) which.push_back((8 * step + k) % count);
      const Element element = batch_of(which, model().part("layer"));
      trained.begin();
      const Array& out = trained.layer.forward(Batch(element));
      Array gradient = wave(out.shape(), 4 + static_cast<double>(step));
      for (std::size_t i = 0; i < out.size(); ++i)
        gradient.data()[i] *= std::cos(out.data()[i]) / 8;
      trained.layer.backward(gradient);
      trained.updater.apply(trained.store.of(0), step);
    }
    trained.expect("trained " + name, golden("trained " + name, 2), false);
  }
}

}  // namespace
}  // namespace penstock::towers
