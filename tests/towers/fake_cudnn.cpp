// cuDNN as loops.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/towers/fake_parts.h"

namespace penstock::towers::test {
namespace {

using Descriptor = FakeDescriptor;

const Descriptor& of(void* object) {
  return *static_cast<Descriptor*>(object);
}
int set_tensor(void* object, int format, int type, int n, int c, int h, int w) {
  // A vector of channels is the same either way.
  if (format != Cudnn::kNhwc && (n != 1 || h != 1 || w != 1)) return 9;
  auto& d = *static_cast<Descriptor*>(object);
  d.type = type, d.n = n, d.c = c, d.h = h, d.w = w;
  return n > 0 && c > 0 && h > 0 && w > 0 ? 0 : 3;
}
int set_filter(void* object, int type, int format, int out, int in, int h, int w) {
  return set_tensor(object, format, type, out, in, h, w);
}
int set_convolution(void* object, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                    int dilation_w, int mode, int compute) {
  auto& d = *static_cast<Descriptor*>(object);
  d.pad = pad_h, d.stride = stride_h;
  return pad_h == pad_w && stride_h == stride_w && dilation_h == 1 && dilation_w == 1 &&
                 mode == Cudnn::kCrossCorrelation && compute == Cudnn::kFloat
             ? 0
             : 9;
}
/// Who asked for true f32 is not to be talked out of it.
int set_math(void* object, int math) {
  int& now = static_cast<Descriptor*>(object)->math;
  if (now == Cudnn::kFmaMath && math != Cudnn::kFmaMath) return 9;
  now = math;
  return 0;
}

/// An algorithm that takes too much room, one that is not there, one that rounds, and one that
/// does.
int choose(void*, void*, void*, void* form, void*, int wanted, int* got, Cudnn::Algorithm* found) {
  if (wanted < 4) return 3;
  found[0] = {1, 0, 0.1F, std::size_t{1} << 40, 1, of(form).math, {}};
  found[1] = {2, 9, -1, 0, 1, of(form).math, {}};
  found[2] = {3, 0, 0.2F, 64, 0, of(form).math == Cudnn::kFmaMath ? Cudnn::kTensorMath : 0, {}};
  found[3] = {4, 0, 0.3F, 128, 1, Cudnn::kDefaultMath, {}};  // as heuristics of cuDNN do
  *got = 4;
  return 0;
}
int room(void*, void*, void*, void*, void*, int algorithm, std::size_t* bytes) {
  *bytes = algorithm == 4 ? 128 : 64;
  return algorithm >= 3 ? 0 : 9;
}

/// Calls visit(x's index, w's index, y's index) for every product of a convolution.
template <typename Visit>
int each_product(const Descriptor& x, const Descriptor& w, const Descriptor& form,
                 const Descriptor& y, const Visit& visit) {
  const auto extent = [&](int size, int kernel) {
    return (size + 2 * form.pad - kernel) / form.stride + 1;
  };
  if (x.c != w.c || y.c != w.n || x.n != y.n || y.h != extent(x.h, w.h) ||
      y.w != extent(x.w, w.w) || x.type != w.type || x.type != y.type)
    return 3;
  for (int n = 0; n < y.n; ++n)
    for (int row = 0; row < y.h; ++row)
      for (int column = 0; column < y.w; ++column)
        for (int ky = 0; ky < w.h; ++ky)
          for (int kx = 0; kx < w.w; ++kx) {
            const int from_y = row * form.stride - form.pad + ky;
            const int from_x = column * form.stride - form.pad + kx;
            if (from_y < 0 || from_y >= x.h || from_x < 0 || from_x >= x.w) continue;
            const std::int64_t in = ((std::int64_t{n} * x.h + from_y) * x.w + from_x) * x.c;
            const std::int64_t out = ((std::int64_t{n} * y.h + row) * y.w + column) * y.c;
            for (int o = 0; o < w.n; ++o)
              for (int c = 0; c < w.c; ++c)
                visit(in + c, ((std::int64_t{o} * w.h + ky) * w.w + kx) * w.c + c, out + o);
          }
  return 0;
}

/// c = alpha * what add(sums) makes + beta * c.
template <typename Add>
int convolve(const void* alpha, const void* beta, const Descriptor& result, void* to, int algorithm,
             std::size_t bytes, const Add& add) {
  if (algorithm < 3 || bytes < 64) return 3;
  current_stream().synchronize();
  std::vector<double> sums(static_cast<std::size_t>(result.volume()));
  if (const int status = add(sums)) return status;
  const double a = static_cast<double>(*static_cast<const float*>(alpha));
  const double b = static_cast<double>(*static_cast<const float*>(beta));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    put(to, at, result.type, a * sums[i] + (b == 0 ? 0 : b * get(to, at, result.type)));
  }
  return 0;
}

int forward(void*, const void* alpha, void* xd, const void* x, void* wd, const void* w, void* form,
            int algorithm, void*, std::size_t bytes, const void* beta, void* yd, void* y) {
  return convolve(alpha, beta, of(yd), y, algorithm, bytes, [&](std::vector<double>& sums) {
    return each_product(of(xd), of(wd), of(form), of(yd), [&](auto in, auto at, auto out) {
      sums[static_cast<std::size_t>(out)] += get(x, in, of(xd).type) * get(w, at, of(wd).type);
    });
  });
}
int data(void*, const void* alpha, void* wd, const void* w, void* dyd, const void* dy, void* form,
         int algorithm, void*, std::size_t bytes, const void* beta, void* dxd, void* dx) {
  return convolve(alpha, beta, of(dxd), dx, algorithm, bytes, [&](std::vector<double>& sums) {
    return each_product(of(dxd), of(wd), of(form), of(dyd), [&](auto in, auto at, auto out) {
      sums[static_cast<std::size_t>(in)] += get(dy, out, of(dyd).type) * get(w, at, of(wd).type);
    });
  });
}
int filter(void*, const void* alpha, void* xd, const void* x, void* dyd, const void* dy, void* form,
           int algorithm, void*, std::size_t bytes, const void* beta, void* dwd, void* dw) {
  return convolve(alpha, beta, of(dwd), dw, algorithm, bytes, [&](std::vector<double>& sums) {
    return each_product(of(xd), of(dwd), of(form), of(dyd), [&](auto in, auto at, auto out) {
      sums[static_cast<std::size_t>(at)] += get(x, in, of(xd).type) * get(dy, out, of(dyd).type);
    });
  });
}

}  // namespace

Cudnn fake_cudnn() {
  Cudnn dnn;
  const auto create = create_fake_descriptor;
  const auto destroy = destroy_fake_descriptor;
  dnn.create = create, dnn.destroy = destroy;
  dnn.set_stream = [](void*, void*) { return 0; };
  dnn.error_string = [](int) { return "the fake's error"; };
  dnn.last_error = [](char* to, std::size_t room) { std::snprintf(to, room, "about nothing"); };
  dnn.create_tensor = create, dnn.destroy_tensor = destroy, dnn.set_tensor = set_tensor;
  dnn.create_filter = create, dnn.destroy_filter = destroy, dnn.set_filter = set_filter;
  dnn.create_convolution = create, dnn.destroy_convolution = destroy;
  dnn.set_convolution = set_convolution, dnn.set_math = set_math;
  dnn.choose_forward = dnn.choose_data = dnn.choose_filter = choose;
  dnn.room_forward = dnn.room_data = dnn.room_filter = room;
  dnn.forward = forward, dnn.data = data, dnn.filter = filter;
  add_fake_pointwise(dnn);
  return dnn;
}

}  // namespace penstock::towers::test
