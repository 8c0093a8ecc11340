// cuDNN's bias, relu and averages as loops.
#include <algorithm>
#include <vector>

#include "tests/towers/fake_parts.h"

namespace penstock::towers::test {
namespace {

const FakeDescriptor& of(void* object) {
  return *static_cast<FakeDescriptor*>(object);
}
double factor(const void* at) {
  return static_cast<double>(*static_cast<const float*>(at));
}
bool alike(const FakeDescriptor& a, const FakeDescriptor& b) {
  return a.type == b.type && a.n == b.n && a.c == b.c && a.h == b.h && a.w == b.w;
}
/// What `beta` leaves of what is there; with 0 that is not read.
double kept(const void* beta, const void* values, std::int64_t i, int type) {
  return factor(beta) == 0 ? 0 : factor(beta) * get(values, i, type);
}

int add(void*, const void* alpha, void* ad, const void* a, const void* beta, void* cd, void* c) {
  current_stream().synchronize();
  const FakeDescriptor& from = of(ad);
  const FakeDescriptor& to = of(cd);
  if (from.type != to.type || from.c != to.c || from.volume() != from.c) return 9;
  for (std::int64_t i = 0; i < to.volume(); ++i)
    put(c, i, to.type, factor(alpha) * get(a, i % to.c, to.type) + kept(beta, c, i, to.type));
  return 0;
}

int set_activation(void* object, int mode, int nan, double) {
  static_cast<FakeDescriptor*>(object)->mode = mode;
  return mode == Cudnn::kRelu && nan == Cudnn::kPropagateNan ? 0 : 9;
}
int activate(void*, void*, const void* alpha, void* xd, const void* x, const void* beta, void* yd,
             void* y) {
  current_stream().synchronize();
  const FakeDescriptor& d = of(xd);
  if (!alike(d, of(yd))) return 3;
  for (std::int64_t i = 0; i < d.volume(); ++i) {
    const double value = get(x, i, d.type);
    put(y, i, d.type, factor(alpha) * (value <= 0 ? 0 : value) + kept(beta, y, i, d.type));
  }
  return 0;
}
int activate_back(void*, void*, const void* alpha, void* yd, const void*, void* dyd, const void* dy,
                  void* xd, const void* x, const void* beta, void* dxd, void* dx) {
  current_stream().synchronize();
  const FakeDescriptor& d = of(xd);
  if (!alike(d, of(yd)) || !alike(d, of(dyd)) || !alike(d, of(dxd))) return 3;
  for (std::int64_t i = 0; i < d.volume(); ++i)
    put(dx, i, d.type,
        factor(alpha) * (get(x, i, d.type) > 0 ? get(dy, i, d.type) : 0) +
            kept(beta, dx, i, d.type));
  return 0;
}

int set_pooling(void* object, int mode, int nan, int height, int width, int pad_h, int pad_w,
                int stride_h, int stride_w) {
  auto& d = *static_cast<FakeDescriptor*>(object);
  d.mode = mode, d.window_h = height, d.window_w = width, d.pad = pad_h, d.stride = stride_h;
  return nan == Cudnn::kPropagateNan && pad_h == pad_w && stride_h == stride_w && pad_h < height &&
                 mode == Cudnn::kAverage
             ? 0
             : 9;
}

/// Calls visit(y's index, the indices of what lies in its window).
template <typename Visit>
int each_window(const FakeDescriptor& form, const FakeDescriptor& x, const FakeDescriptor& y,
                const Visit& visit) {
  if (y.n != x.n || y.c != x.c || y.type != x.type ||
      y.h != (x.h + 2 * form.pad - form.window_h) / form.stride + 1 ||
      y.w != (x.w + 2 * form.pad - form.window_w) / form.stride + 1)
    return 3;
  for (std::int64_t i = 0; i < y.volume(); ++i) {
    const std::int64_t left = i / y.c % y.w * form.stride - form.pad;
    const std::int64_t top = i / y.c / y.w % y.h * form.stride - form.pad;
    const std::int64_t n = i / y.c / y.w / y.h;
    std::vector<std::int64_t> inside;
    for (std::int64_t row = std::max<std::int64_t>(0, top);
         row < std::min<std::int64_t>(x.h, top + form.window_h); ++row)
      for (std::int64_t column = std::max<std::int64_t>(0, left);
           column < std::min<std::int64_t>(x.w, left + form.window_w); ++column)
        inside.push_back(((n * x.h + row) * x.w + column) * x.c + i % y.c);
    visit(i, inside);
  }
  return 0;
}

int pool(void*, void* form, const void* alpha, void* xd, const void* x, const void* beta, void* yd,
         void* y) {
  current_stream().synchronize();
  const int type = of(xd).type;
  return each_window(of(form), of(xd), of(yd), [&](std::int64_t to, const auto& inside) {
    double value = 0;
    for (const std::int64_t at : inside)
      value += get(x, at, type) / static_cast<double>(inside.size());
    put(y, to, type, factor(alpha) * value + kept(beta, y, to, type));
  });
}
int pool_back(void*, void* form, const void* alpha, void* yd, const void*, void* dyd,
              const void* dy, void* xd, const void*, const void* beta, void* dxd, void* dx) {
  current_stream().synchronize();
  if (!alike(of(yd), of(dyd)) || !alike(of(xd), of(dxd))) return 3;
  const int type = of(xd).type;
  std::vector<double> sums(static_cast<std::size_t>(of(xd).volume()));
  const int status = each_window(of(form), of(xd), of(yd), [&](auto from, const auto& inside) {
    const double owed = get(dy, from, type);
    for (const std::int64_t at : inside)
      sums[static_cast<std::size_t>(at)] += owed / static_cast<double>(inside.size());
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    put(dx, at, type, factor(alpha) * sums[i] + kept(beta, dx, at, type));
  }
  return status;
}

}  // namespace

void add_fake_pointwise(Cudnn& dnn) {
  dnn.add = add;
  dnn.create_activation = dnn.create_pooling = create_fake_descriptor;
  dnn.destroy_activation = dnn.destroy_pooling = destroy_fake_descriptor;
  dnn.set_activation = set_activation, dnn.set_pooling = set_pooling;
  dnn.activate = activate, dnn.activate_back = activate_back;
  dnn.pool = pool, dnn.pool_back = pool_back;
}

}  // namespace penstock::towers::test
