// Calls that no type fits. misuse_test.sh compiles each case alone, and looks for its sentence in
// what the compiler says.
#include <penstock/penstock.h>

namespace ps = penstock;

void misuse(const ps::Dataset& data, const ps::Tensor& tensor, const ps::WorkOpPtr& op) {
  const auto wrong = [](int) { return 0; };
  static_cast<void>(data), static_cast<void>(tensor), static_cast<void>(op);
  static_cast<void>(wrong);
#if CASE == 0
  (void)data.map([](ps::Element element) { return element; }).filter([](const ps::Element&) {
    return true;
  });
#elif CASE == 1   // map takes a callable Element(Element)
  (void)data.map(wrong);
#elif CASE == 2   // a WorkOp goes to map_op
  (void)data.map(op);
#elif CASE == 3   // map takes a callable Element(Element)
  (void)data.map([](ps::Element& element) { element["x"] = ps::Tensor(); });
#elif CASE == 4   // filter takes a callable bool(const Element&)
  (void)data.filter(wrong);
#elif CASE == 5   // filter takes a callable bool(const Element&)
  (void)data.filter([](ps::Element&) { return true; });
#elif CASE == 6   // take_while takes a callable bool(const Element&)
  (void)data.take_while([] { return true; });
#elif CASE == 7   // map_batchwise takes a callable void(const Element& in, Element& out)
  (void)data.map_batchwise([](ps::Element element) { return element; });
#elif CASE == 8   // flat_map takes a callable Dataset(const Element&)
  (void)data.flat_map([](ps::Element element) { return element; }, data.spec());
#elif CASE == 9   // interleave takes a callable Dataset(const Element&)
  (void)data.interleave(wrong, data.spec(), {.cycle = 2});
#elif CASE == 10  // scan takes a callable std::pair<Element, Element>
  (void)data.scan(ps::Element(), [](ps::Element element) { return element; });
#elif CASE == 11  // group_by_window takes a callable std::int64_t(const Element&)
  (void)data.group_by_window([](int) { return 0; }, {.size = 3});
#elif CASE == 12  // window takes a callable Dataset(const Dataset& window)
  (void)data.window(3, [](const ps::Element& element) { return element; });
#elif CASE == 13  // rejection_resample takes a callable std::int64_t(const Element&)
  (void)data.rejection_resample(wrong, {0.5, 0.5});
#elif CASE == 14  // Tensor::scalar takes a number; text goes to Tensor::copy_bytes
  (void)ps::Tensor::scalar("text");
#elif CASE == 15  // Tensor::scalar takes a number of a fixed width
  (void)ps::Tensor::scalar('c');
#elif CASE == 16  // std::int64_t rather than long long
  (void)tensor.values<long long>();
#elif CASE == 17  // std::string_view rather than std::string
  (void)tensor.to_vector<std::string>();
#elif CASE == 18  // a tensor's values are read as what it stores
  (void)tensor.item<char>();
#else
#error no such case
#endif
}
