#include "towers/evaluate/follower.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include <sys/stat.h>

#include <penstock/error.h>
#include <penstock/internal/thread_annotations.h>
#include <penstock/log.h>

#include "towers/checkpoint/checkpoint.h"
#include "towers/checkpoint/resuming.h"
#include "towers/checkpoint/run_folder.h"
#include "towers/classes.h"
#include "towers/evaluate/evaluator.h"
#include "towers/train/tower_set.h"
#include "towers/train/train_plan.h"

namespace penstock::towers {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookEvery{200};

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns options for a single tower, whatever towers train.
TrainOptions one_tower(TrainOptions options) {
  if (options.checkpoint_folder.empty())
    throw Error(ErrorCode::invalid_argument, "an evaluator needs the folder of checkpoints");
  if (options.devices.size() != 1)
    throw Error(ErrorCode::invalid_argument, "an evaluator computes on one device, not on " +
                                                 std::to_string(options.devices.size()));
  options.strategy.kind = StrategyKind::replicated;
  options.strategy.peers = nullptr;
  options.virtual_towers = 1;
  check_options(options);
  return completed(std::move(options));
}

/// Converts the time to the steady clock; never in the future, even if other hosts' clocks are
/// ahead.
Clock::time_point steady_of(double unix_s) {
  const double ago = std::clamp(unix_seconds() - unix_s, 0.0, 1e9);
  return Clock::now() -
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(ago));
}

}  // namespace

class Follower::Impl {
 public:
  Impl(const ModelMaker& make, const Dataset& test, FollowerOptions options)
      : options_(std::move(options)),
        train_(one_tower(options_.train)),
        log_(train_.checkpoint_folder),
        test_(test),
        towers_(make, train_, {}) {
    if (!options_.best.empty()) best_.emplace(options_.best, options_.best_by, !log_.all().empty());
  }

  FollowResult run(FollowObserver& observer) {
    FollowResult result;
    observer.on_log(log_.all());
    std::optional<Clock::time_point> began;
    if (!log_.all().empty()) began = steady_of(log_.all().back().began);
    FollowPlan plan(options_.follow, Clock::now(), began);
    while (!stopped()) {
      const std::vector<CheckpointFile> files = look();
      const FollowPlan::Next next = plan.next(seen_, Clock::now());
      if (next.what == FollowPlan::What::end) break;
      if (next.what == FollowPlan::What::give_up) give_up(plan);
      if (next.what == FollowPlan::What::wait) {
        wait();
      } else if (evaluate(files[next.which], plan, observer)) {
        ++result.made;
      }
    }
    result.stopped = stopped();
    result.evaluations = log_.all();
    return result;
  }

  void stop() noexcept EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
    if (to_cancel_ != nullptr) to_cancel_->cancel();
  }

 private:
  /// Identifies a file, even if others are written under the same name. Its inode number would not
  /// do, since some file systems give the same file another at any time.
  struct Identity {
    off_t size = 0;
    time_t seconds = 0;
    long nanoseconds = 0;

    friend auto operator<=>(const Identity&, const Identity&) = default;
  };

  static std::optional<Identity> identity_of(const std::string& path) {
    struct stat st {};
    if (::stat(path.c_str(), &st) != 0) return std::nullopt;
    return Identity{st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
  }

  bool stopped() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return stopped_;
  }

  void wait() EXCLUDES(mutex_) {
    const Clock::time_point until = Clock::now() + kLookEvery;
    const MutexLock lock(mutex_);
    while (!stopped_ && Clock::now() < until) changed_.wait_until(mutex_, until);
  }

  /// Returns the checkpoints that `seen_.kept` describes, in the same order.
  std::vector<CheckpointFile> look() {
    // Read this before the checkpoints: if training has ended, its last checkpoint exists.
    const std::optional<Finished> finished = ended();
    std::vector<CheckpointFile> files = checkpoint_files(train_.checkpoint_folder);
    std::erase_if(files, [](const CheckpointFile& file) { return !identity_of(file.path); });
    seen_ = {};
    seen_.trained_into = is_trained_into(train_.checkpoint_folder);
    if (finished) seen_.last_step = finished->step;
    bool last_kept = false;
    for (const CheckpointFile& file : files) {
      const auto known = known_.find(file.path);
      const bool evaluated = known != known_.end() && known->second == identity_of(file.path);
      seen_.kept.push_back({file.step, evaluated});
      if (seen_.last_step != file.step) continue;
      last_kept = true;
      seen_.last_evaluated = evaluated;
      if (evaluated && damaged_.contains(known->second))
        throw Error(ErrorCode::data_loss, "the last checkpoint is damaged", {.shard = file.path});
    }
    if (seen_.last_step && !last_kept)
      seen_.last_evaluated = std::ranges::any_of(
          log_.all(), [&](const auto& one) { return one.evaluation.step == *seen_.last_step; });
    return files;
  }

  std::optional<Finished> ended() const {
    const std::optional<Finished> finished = read_finished(train_.checkpoint_folder);
    if (!finished || (options_.epochs && *options_.epochs != finished->epochs) ||
        (options_.max_steps && *options_.max_steps != finished->max_steps))
      return std::nullopt;
    return finished;
  }

  /// False if there was nothing to evaluate.
  bool evaluate(const CheckpointFile& file, FollowPlan& plan, FollowObserver& observer) {
    const std::optional<Identity> identity = identity_of(file.path);
    const std::optional<StoredRun> stored = read(file);
    if (!stored) {
      if (!identity || !identity_of(file.path)) return false;  // removed meanwhile
      known_[file.path] = *identity;
      damaged_.insert(*identity);
      return false;
    }
    RecordedEvaluation one;
    one.digest = stored->variables_digest();
    if (log_.has(stored->step(), one.digest)) {
      if (identity) known_[file.path] = *identity;
      return false;
    }
    one.epoch = stored->epoch();
    one.began = unix_seconds();
    const Clock::time_point start = Clock::now();
    plan.began(start);
    stored->restore_variables(towers_.store());
    if (!prepare(stored->classes())) return false;
    try {
      one.evaluation = evaluator_->evaluate(stored->step());
    } catch (const Error&) {
      if (stopped()) return false;
      throw;
    }
    if (stopped()) return false;  // may not include all rows
    one.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    // If the process is killed between the two, its successor exports the same variables again.
    const bool is_best = best_ && best_->offer(one.evaluation, towers_.store(), classes_);
    log_.add(one);
    if (identity) known_[file.path] = *identity;
    observer.on_log(log_.all());
    observer.on_evaluation(one, is_best);
    return true;
  }

  /// Prepares for checkpoints whose labels count these classes; false if it was stopped.
  bool prepare(const std::vector<std::string>& classes) EXCLUDES(mutex_) {
    if (evaluator_ && classes_ == classes) return !stopped();
    const Dataset rows = labelled(test_, classes, train_.class_weights, kEvaluationData);
    {
      const MutexLock lock(mutex_);
      if (stopped_) return false;
      to_cancel_ = nullptr;
    }
    evaluator_.emplace(towers_, rows, train_);
    classes_ = classes;
    const MutexLock lock(mutex_);
    to_cancel_ = &*evaluator_;
    return !stopped_;
  }

  /// Returns nothing if the file no longer exists or is damaged.
  std::optional<StoredRun> read(const CheckpointFile& file) const {
    try {
      return StoredRun::read(file.path);
    } catch (const Error& error) {
      if (!identity_of(file.path)) return std::nullopt;
      if (error.code() != ErrorCode::data_loss || seen_.last_step == file.step) throw;
      log(LogLevel::warning, "checkpoint " + file.path + " is skipped: " + error.cause());
      return std::nullopt;
    }
  }

  [[noreturn]] void give_up(const FollowPlan& plan) const {
    std::string why = "no process seems to train: for " +
                      std::to_string(static_cast<long>(plan.quiet_s(Clock::now()))) +
                      " s there was no new checkpoint in " + train_.checkpoint_folder;
    if (seen_.last_step && !seen_.last_evaluated)
      why += ", where training ended with step " + std::to_string(*seen_.last_step) +
             " and left no checkpoint of it";
    throw Error(ErrorCode::no_progress, why);
  }

  const FollowerOptions options_;
  const TrainOptions train_;
  EvaluationLog log_;
  const Dataset test_;
  TowerSet towers_;
  std::optional<Evaluator> evaluator_;
  std::vector<std::string> classes_;  // the classes it is for
  std::optional<BestExport> best_;
  FollowPlan::Seen seen_;
  std::map<std::string, Identity> known_;  // by path: evaluated, or damaged
  std::set<Identity> damaged_;             // the damaged ones
  SlowMutex mutex_;  // held while an evaluation is cancelled, so that its evaluator lives
  CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  Evaluator* to_cancel_ GUARDED_BY(mutex_) = nullptr;  // for `stop`
};

Follower::Follower(const ModelMaker& make, const Dataset& test, FollowerOptions options)
    : impl_(std::make_unique<Impl>(make, test, std::move(options))) {}
Follower::~Follower() = default;
FollowResult Follower::run(FollowObserver& observer) {
  return impl_->run(observer);
}
void Follower::stop() noexcept {
  impl_->stop();
}

}  // namespace penstock::towers
