#include <penstock/staging_area.h>

#include <algorithm>
#include <span>
#include <utility>

#include "staging/area.h"

namespace penstock {

StagedBatch& StagedBatch::operator=(StagedBatch&& other) noexcept {
  if (this == &other) return *this;
  release();
  take(other);
  return *this;
}

StagedBatch::StagedBatch(StagedBatch&& other) noexcept {
  take(other);
}

void StagedBatch::take(StagedBatch& other) noexcept {
  area_ = std::move(other.area_);
  flight_ = std::exchange(other.flight_, nullptr);
  waited_ = std::exchange(other.waited_, 0);
  for (std::size_t i = 0; i < waited_; ++i) {
    streams_[i] = std::exchange(other.streams_[i], StreamView());
  }
}

StagedBatch::~StagedBatch() {
  release();
}

Flight& StagedBatch::flight() const {
  if (flight_ != nullptr) return *flight_;
  throw Error(ErrorCode::invalid_argument, "the batch was released or moved from");
}

void StagedBatch::remember(const StreamView& stream) {
  static_cast<void>(stream.state());  // throws if it has ended
  const auto known = std::span(streams_).first(waited_);
  if (std::ranges::find(known, stream) != known.end()) return;
  if (waited_ == kMostStreams) {
    throw Error(ErrorCode::out_of_range,
                "at most " + std::to_string(kMostStreams) + " streams can use one batch");
  }
  streams_[waited_++] = stream;
}

void StagedBatch::wait(StreamView stream, Site site) {
  Flight& waited = flight();
  remember(stream);
  area_->wait(waited, stream, site);
}

void StagedBatch::synchronize(Site site) const {
  area_->await_copy(flight());
  flight_->ready.view().synchronize(site);  // returns at once, and tells the checker
}

void StagedBatch::release(StreamView stream, Site site) {
  if (flight_ == nullptr) return;
  remember(stream);
  release(site);
}

void StagedBatch::release(Site site) noexcept {
  if (flight_ == nullptr) return;
  area_->release(*std::exchange(flight_, nullptr), {streams_.data(), waited_}, site);
  while (waited_ > 0) streams_[--waited_] = StreamView();
  area_.reset();
}

std::size_t StagedBatch::size() const noexcept {
  return flight_ == nullptr ? 0 : flight_->tensors.size();
}

const DeviceTensor& StagedBatch::at(std::size_t i) const {
  return flight().tensors[i];
}

bool StagedBatch::has(std::string_view name) const noexcept {
  return area_ && area_->layout().names()->find(name) >= 0;
}

const DeviceTensor& StagedBatch::operator[](std::string_view name) const {
  const Flight& known_flight = flight();
  const Names& names = *area_->layout().names();
  const int found = names.find(name);
  if (found >= 0) return known_flight.tensors[static_cast<std::size_t>(found)];
  std::string known;
  for (std::size_t i = 0; i < names.size(); ++i) known += (i == 0 ? "" : ", ") + names[i];
  throw Error(ErrorCode::not_found,
              "no component \"" + std::string(name) + "\" in the batch; it has " + known);
}

std::int64_t StagedBatch::valid_rows() const noexcept {
  return flight_ == nullptr ? 0 : flight_->times.rows;
}
std::uint64_t StagedBatch::sequence() const noexcept {
  return flight_ == nullptr ? 0 : flight_->times.sequence;
}
int StagedBatch::slot() const noexcept {
  return flight_ == nullptr ? -1 : flight_->slot->index;
}

StagingPermit::StagingPermit(StagingPermit&& other) noexcept
    : area_(std::move(other.area_)), flight_(std::exchange(other.flight_, nullptr)) {}

StagingPermit& StagingPermit::operator=(StagingPermit&& other) noexcept {
  std::swap(area_, other.area_);
  std::swap(flight_, other.flight_);
  return *this;
}

StagingPermit::~StagingPermit() {
  if (flight_ != nullptr) area_->give_back(*flight_);
}

struct StagingArea::Reaper {
  explicit Reaper(const std::shared_ptr<StagingState>& state)
      : area(*state),
        thread(state->device().backend().time().start({state->device().id().index, kRank},
                                                      [&area = *state] { area.reap(); })) {}
  ~Reaper() { area.close(); }
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  static constexpr int kRank = 1 << 20;  // after all streams
  StagingState& area;
  Actor thread;
};

namespace {

std::int64_t at_least_one(std::int64_t rows) {
  if (rows >= 1) return rows;
  throw Error(ErrorCode::invalid_argument,
              "a batch has at least 1 row, not " + std::to_string(rows));
}

}  // namespace

StagingArea::StagingArea(DevicePtr device, const Spec& batches, std::int64_t rows,
                         StagingOptions options)
    : StagingArea(std::make_shared<StagingState>(std::move(device), batches, at_least_one(rows),
                                                 options)) {}

StagingArea::StagingArea(std::shared_ptr<StagingState> state)
    : state_(std::move(state)), reaper_(std::make_unique<Reaper>(state_)) {}

StagingArea::StagingArea(StagingArea&&) noexcept = default;
StagingArea& StagingArea::operator=(StagingArea&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(reaper_, other.reaper_);
  return *this;
}
StagingArea::~StagingArea() = default;

StagingState& StagingArea::state() const {
  return *not_moved(state_, "staging area");
}

StagingPermit StagingArea::reserve() {
  return state().reserve();
}

void StagingArea::put(Element batch) {
  StagingPermit permit = state().reserve();
  Piece piece{std::move(batch), 0, 0};
  if (piece.batch.size() > 0 && piece.batch[0].rank() > 0) piece.count = piece.batch[0].dim(0);
  put(std::move(permit), {&piece, 1}, 0);
}

void StagingArea::put(StagingPermit permit, std::span<Piece> pieces, std::int64_t padded_rows) {
  if (permit.flight_ == nullptr) throw_moved_from("permit");
  state().layout().check(pieces, padded_rows);
  state().put(std::move(permit), pieces, padded_rows);
}

void StagingArea::put_end() {
  state().put_end();
}
void StagingArea::put_error(Error error) {
  state().put_error(Status(std::move(error)));
}
std::optional<StagedBatch> StagingArea::get() {
  StagingState::Taken taken = state().next(state().device().backend().time().now());
  if (!taken.error.ok()) throw Error(taken.error.error());
  return std::move(taken.batch);
}
StagedBatch StagingArea::peek(std::size_t i) {
  return state().peek(i);
}
std::size_t StagingArea::size() const {
  return state().size();
}
void StagingArea::clear() {
  state().clear();
}
void StagingArea::fail(Error error) {
  state().fail(Status(std::move(error)));
}
Device& StagingArea::device() const {
  return state().device();
}
int StagingArea::slots() const noexcept {
  return state_ ? state_->slots() : 0;
}
std::uint64_t StagingArea::slot_bytes() const noexcept {
  return state_ ? state_->layout().bytes() : 0;
}

}  // namespace penstock
