// The source that calls a user's callback.
#include <penstock/sources.h>

namespace penstock {
namespace {

class GeneratedStream final : public RecordStream {
 public:
  GeneratedStream(Generator generator, Spec spec, std::string name)
      : generator_(std::move(generator)), spec_(std::move(spec)), name_(std::move(name)) {
    where_.shard = name_;
  }

  bool next(ReadItem& item, ReadContext&) override {
    if (ended_) return false;
    item.index = next_;
    where_.index = static_cast<std::int64_t>(next_);
    item.status = Status();
    item.element.clear();
    try {
      if (!generator_(item.element)) {
        ended_ = true;
        return false;
      }
      const std::string what = spec_.mismatch(item.element);
      if (!what.empty()) {
        item.status = Status(ErrorCode::user,
                             "what '" + name_ + "' generated does not fit its spec: " + what);
      }
    } catch (...) {
      item.status = status_from_current_exception();
    }
    ++next_;
    return true;
  }

  const Provenance& locate() const override { return where_; }

 private:
  Generator generator_;
  Spec spec_;
  std::string name_;
  Provenance where_;
  std::uint64_t next_ = 0;
  bool ended_ = false;
};

class GenerateSource final : public Source {
 public:
  GenerateSource(std::function<Generator()> make, Spec spec, std::string name)
      : make_(std::move(make)), spec_(std::move(spec)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  void describe(Description& description) const override {
    description.add("output", spec_.to_string());
  }
  Spec spec() const override { return spec_; }
  // A user's callback may wait for anything.
  bool blocking() const override { return true; }
  bool deterministic() const override { return false; }

  std::unique_ptr<RecordStream> stream() const override {
    Generator generator = make_();
    if (!generator) {
      throw Error(ErrorCode::user, "'" + name_ + "' made an empty generator");
    }
    return std::make_unique<GeneratedStream>(std::move(generator), spec_, name_);
  }

 private:
  std::function<Generator()> make_;
  Spec spec_;
  std::string name_;
};

}  // namespace

SourcePtr make_generate_source(std::function<Generator()> make, Spec spec, std::string name) {
  if (!make) throw Error(ErrorCode::invalid_argument, "'" + name + "' has no callable");
  return std::make_shared<GenerateSource>(std::move(make), std::move(spec), std::move(name));
}

}  // namespace penstock
