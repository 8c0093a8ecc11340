// Towers of libtorch: a torch::nn::Module on each device, fed by Penstock without a copy, and its
// gradients exchanged by Penstock. README.md beside this file says how to build and run it.
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <ATen/DLConvertor.h>
#include <ATen/Parallel.h>
#include <torch/nn.h>
#include <torch/optim/sgd.h>

#include <penstock/dlpack.h>
#include <penstock/penstock.h>
#include <penstock/towers.h>

#include <resnet.h>

namespace ps = penstock;
namespace tw = penstock::towers;

namespace {

struct Options {
  int towers = 2, devices = 2, steps = 5;
  std::int64_t batch = 8;
  bool f64 = false;
  std::string images, labels, init;  // .npy, .npy, values of all parameters as f64
  std::string exchange = "ordered";
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--f64") {
      options.f64 = true;
      continue;
    }
    if (i + 1 == argc) throw ps::Error(ps::ErrorCode::invalid_argument, flag + " needs a value");
    const std::string value = argv[++i];
    if (flag == "--towers")
      options.towers = std::stoi(value);
    else if (flag == "--devices")
      options.devices = std::stoi(value);
    else if (flag == "--steps")
      options.steps = std::stoi(value);
    else if (flag == "--batch")
      options.batch = std::stoi(value);
    else if (flag == "--images")
      options.images = value;
    else if (flag == "--labels")
      options.labels = value;
    else if (flag == "--init")
      options.init = value;
    else if (flag == "--exchange")
      options.exchange = value;
    else
      throw ps::Error(ps::ErrorCode::invalid_argument, "no flag " + flag);
  }
  if (options.devices < 1 || options.towers % options.devices != 0)
    throw ps::Error(ps::ErrorCode::invalid_argument, "towers must be a multiple of devices");
  return options;
}

/// {image: f32 or f64 [3,h,w], label: i64}: of files, or made up.
ps::Dataset elements(const Options& options) {
  const auto renamed = [](const std::string& path, const std::string& name) {
    const ps::Dataset rows = ps::npy({path});
    return rows.map(
        [name](const ps::Element& in) {
          return ps::Element{{name, in["value"]}};
        },
        {.name = name, .output = ps::Spec({{name, rows.spec()[0].dtype, rows.spec()[0].shape}})});
  };
  if (!options.images.empty())
    return ps::zip({renamed(options.images, "image"), renamed(options.labels, "label")});
  const ps::Spec spec({{"image", ps::DType::f32, {3, 32, 32}}, {"label", ps::DType::i64, {}}});
  return ps::range(std::int64_t{options.towers} * options.batch * options.steps)
      .map(
          [](const ps::Element& in) {
            const auto i = in["value"].item<std::int64_t>();
            const std::vector<float> pixels(std::size_t{3} * 32 * 32,
                                            static_cast<float>(i % 10) / 10);
            return ps::Element{{"image", ps::Tensor::of<float>({3, 32, 32}, pixels)},
                               {"label", ps::Tensor::scalar(i % 10)}};
          },
          {.output = spec});
}

/// The model of a device, and for each of its towers gradients of its own.
struct Replica {
  Replica(const Options& options, int towers)
      : model(10),
        optimizer((model->to(options.f64 ? torch::kDouble : torch::kFloat), model->parameters()),
                  torch::optim::SGDOptions(0.01).momentum(0.9)) {
    for (int t = 0; t < towers; ++t) {
      std::vector<torch::Tensor>& mine = gradients.emplace_back();
      for (const torch::Tensor& parameter : model->parameters())
        mine.push_back(torch::zeros_like(parameter));
    }
  }
  tw::OwnTower tower(std::size_t t) const {
    tw::OwnTower tower;
    std::size_t p = 0;
    for (const auto& named : model->named_parameters()) {
      const torch::Tensor& value = named.value();
      tower.parameters.push_back(
          {named.key(), value.scalar_type() == torch::kDouble ? ps::DType::f64 : ps::DType::f32,
           ps::Shape({value.sizes().data(), value.sizes().size()}), value.data_ptr(),
           gradients[t][p++].data_ptr()});
    }
    return tower;
  }
  /// The tower's loss; its gradients are where the exchange looks for them.
  double backward(std::size_t tower, const torch::Tensor& image, const torch::Tensor& label) {
    std::size_t p = 0;
    for (torch::Tensor parameter : model->parameters()) {
      gradients[tower][p].zero_();
      parameter.mutable_grad() = gradients[tower][p++];  // backward adds to it in place
    }
    const torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(image), label);
    loss.backward();
    return loss.item<double>();
  }

  ResNet model;
  torch::optim::SGD optimizer;
  std::vector<std::vector<torch::Tensor>> gradients;
};

/// A component as a torch tensor on the batch's own memory.
torch::Tensor on(const ps::ExportedBatch& batch, const char* component, const void* memory) {
  torch::Tensor tensor =
      at::fromDLPack(reinterpret_cast<DLManagedTensor*>(batch.tensor(component)));
  TORCH_CHECK(tensor.data_ptr() == memory, component, " was copied");
  return tensor;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void run(const Options& options) {
  const std::unique_ptr<tw::Peers> peers = tw::join({.exchange = options.exchange});
  const int processes = peers ? peers->size() : 1;
  const int in_turn = options.towers / options.devices;  // towers of each device

  std::vector<ps::DevicePtr> devices;  // of each tower
  std::vector<Replica> replicas;
  std::vector<tw::OwnTower> towers;
  for (int d = 0; d < options.devices; ++d) {
    replicas.emplace_back(options, in_turn);
    for (int t = 0; t < in_turn; ++t) {
      devices.push_back(ps::device({ps::DeviceKind::host, d}));
      towers.push_back(replicas.back().tower(static_cast<std::size_t>(t)));
    }
  }
  if (!options.init.empty()) read_parameters(replicas[0].model, options.init);
  tw::ParameterExchange exchange(towers, {.timeout_s = 300, .peers = peers.get()});
  exchange.share_values();  // all begin as the first one

  const int first = (peers ? peers->rank() : 0) * options.towers;  // among those of all processes
  ps::Feed feed(elements(options).batch(options.batch), devices,
                {.towers_held = {first, processes * options.towers}});
  std::vector<std::vector<double>> losses(static_cast<std::size_t>(options.steps),
                                          std::vector<double>(devices.size()));
  const double begun = cpu_seconds();
  const auto train = [&](int d) {
    at::set_num_threads(1);
    Replica& mine = replicas[static_cast<std::size_t>(d)];
    const ps::Stream stream(devices[static_cast<std::size_t>(d * in_turn)], "libtorch");
    for (std::size_t step = 0; step < losses.size(); ++step) {
      for (int i = 0; i < in_turn; ++i) {
        const int tower = d * in_turn + i;
        std::optional<ps::StagedBatch> batch = feed.next(first + tower);
        if (!batch) throw ps::Error(ps::ErrorCode::out_of_range, "the data have ended");
        batch->synchronize();
        const void* const image = (*batch)["image"].data;
        const void* const label = (*batch)["label"].data;
        exchange.begin(tower, options.batch);
        {
          // The slot is given back when the last tensor that views it is gone.
          const ps::ExportedBatch exported(std::move(*batch), stream);
          losses[step][static_cast<std::size_t>(tower)] =
              mine.backward(static_cast<std::size_t>(i), on(exported, "image", image),
                            on(exported, "label", label));
        }
        for (std::size_t p = 0; p < mine.gradients[0].size(); ++p) exchange.ready(tower, p);
        exchange.push(tower);
      }
      for (int i = 0; i < in_turn; ++i) exchange.wait(d * in_turn + i);
      mine.optimizer.step();  // with the last tower's gradients, which are those of all
    }
  };
  std::vector<std::thread> threads;
  std::vector<ps::Status> ends(static_cast<std::size_t>(options.devices));
  for (int d = 0; d < options.devices; ++d)
    threads.emplace_back([&, d] {
      try {
        train(d);
      } catch (...) {
        ends[static_cast<std::size_t>(d)] = ps::status_from_current_exception();
        exchange.fail(ends[static_cast<std::size_t>(d)]);  // the others wait for this tower
        feed.cancel();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const ps::Status& end : ends)
    if (!end.ok()) throw ps::Error(end.error());

  const double cpu = cpu_seconds() - begun;
  double input = 0;
  for (const ps::StageStats& stage : feed.stats().run.stages) input += stage.busy_s;
  std::uint64_t copies = 0;
  for (const ps::DevicePtr& device : devices) copies += device->counters().copies;
  for (std::size_t step = 0; step < losses.size(); ++step) {
    double sum = 0;
    for (const double loss : losses[step]) sum += loss / static_cast<double>(devices.size());
    if (peers) {
      std::vector<double> all(static_cast<std::size_t>(processes));
      peers->gather_between_towers(std::as_bytes(std::span(&sum, 1)),
                                   std::as_writable_bytes(std::span(all)));
      sum = 0;
      for (const double loss : all) sum += loss / static_cast<double>(processes);
    }
    if (!peers || peers->rank() == 0) std::printf("step %zu loss %.17g\n", step, sum);
  }
  if (!peers || peers->rank() == 0)
    std::printf("%llu copies of batches, input %.2f %% of %.1f CPU seconds\n",
                static_cast<unsigned long long>(copies), 100 * input / cpu, cpu);
}

}  // namespace

int main(int argc, char** argv) try {
  run(parse(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "libtorch_towers: %s\n", error.what());
  return 1;
}
