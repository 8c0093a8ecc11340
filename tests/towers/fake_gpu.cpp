#include "tests/towers/fake_gpu.h"

#include "tests/towers/fake_parts.h"

namespace penstock::towers::test {

StreamView& current_stream() {
  thread_local StreamView stream;
  return stream;
}

namespace {

const char* enter(StreamView stream) {
  current_stream() = stream;
  return nullptr;
}

template <typename Plan>
struct Here {
  static const char* launch(const Plan& plan, std::int64_t count, StreamView stream) {
    stream.synchronize();
    run_here(plan, count);
    return nullptr;
  }
};

struct Layout {
  int type;
  std::uint64_t rows, columns;
};
struct Product {
  bool turn_a = false, turn_b = false;
};

int create_product(void** to, int, int) {
  *to = new Product();
  return 0;
}
int set_attribute(void* object, int attribute, const void* value, std::size_t bytes) {
  if (bytes != sizeof(std::int32_t)) return 7;
  auto& product = *static_cast<Product*>(object);
  (attribute == CublasLt::kTransposeA ? product.turn_a : product.turn_b) =
      *static_cast<const std::int32_t*>(value) == CublasLt::kTransposed;
  return 0;
}
int create_layout(void** to, int type, std::uint64_t rows, std::uint64_t columns,
                  std::int64_t leading) {
  *to = new Layout{type, rows, columns};
  return static_cast<std::uint64_t>(leading) == rows ? 0 : 7;
}

// Column-major.
int matmul(void*, void* form, const void* alpha, const void* a, void* al, const void* b, void* bl,
           const void* beta, const void* c, void* cl, void* d, void*, const void*, void*,
           std::size_t, void*) {
  current_stream().synchronize();
  // cuBLASLt takes matrices for aligned; here a batch, which is not copied, need not be.
  if (reinterpret_cast<std::uintptr_t>(c) % 256 != 0) return 13;
  const auto type_of = [](const Layout& l) {
    return l.type == CublasLt::kBf16 ? Cudnn::kBf16 : Cudnn::kFloat;
  };
  const Layout &la = *static_cast<Layout*>(al), &lb = *static_cast<Layout*>(bl),
               &lc = *static_cast<Layout*>(cl);
  const Product& product = *static_cast<Product*>(form);
  const std::uint64_t depth = product.turn_a ? la.rows : la.columns;
  if ((product.turn_a ? la.columns : la.rows) != lc.rows ||
      (product.turn_b ? lb.rows : lb.columns) != lc.columns ||
      (product.turn_b ? lb.columns : lb.rows) != depth)
    return 7;
  const auto keep = static_cast<double>(*static_cast<const float*>(beta));
  for (std::uint64_t column = 0; column < lc.columns; ++column)
    for (std::uint64_t row = 0; row < lc.rows; ++row) {
      double sum = 0;
      for (std::uint64_t k = 0; k < depth; ++k) {
        const std::uint64_t ia = product.turn_a ? k + row * la.rows : row + k * la.rows;
        const std::uint64_t ib = product.turn_b ? column + k * lb.rows : k + column * lb.rows;
        sum += get(a, static_cast<std::int64_t>(ia), type_of(la)) *
               get(b, static_cast<std::int64_t>(ib), type_of(lb));
      }
      const auto at = static_cast<std::int64_t>(row + column * lc.rows);
      sum *= static_cast<double>(*static_cast<const float*>(alpha));
      put(d, at, type_of(lc), sum + (keep == 0 ? 0 : keep * get(c, at, type_of(lc))));
    }
  return 0;
}

GpuLibraries make() {
  GpuLibraries all;
  all.cudnn = fake_cudnn();
  all.nccl = []() -> const Nccl& {
    static const Nccl nccl = fake_nccl();
    return nccl;
  };
  CublasLt& blas = all.blas;
  blas.create = [](void** to) { return create_product(to, 0, 0); };
  blas.error_string = all.cudnn.error_string;
  blas.create_matmul = create_product, blas.set_attribute = set_attribute;
  blas.destroy = blas.destroy_matmul = [](void* object) {
    delete static_cast<Product*>(object);
    return 0;
  };
  blas.create_layout = create_layout, blas.matmul = matmul;
  blas.destroy_layout = [](void* object) {
    delete static_cast<Layout*>(object);
    return 0;
  };
  all.kernels.launches = Launches::made<Here>();
  all.kernels.enter = enter;
  return all;
}

}  // namespace

const GpuLibraries& fake_gpu() {
  static const GpuLibraries all = make();
  return all;
}

}  // namespace penstock::towers::test
