// Every public type that holds a handle: an object that was moved from throws, or is empty.
#include <csignal>
#include <functional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/dlpack.h>
#include <penstock/penstock.h>

#include "tests/support/errors.h"

// NOLINTBEGIN(bugprone-use-after-move)

namespace penstock {
namespace {

using test::expect_error;

Dataset images() {
  return synthetic({.count = 8, .image_height = 16, .image_width = 16});
}

Dataset batches() {
  return range(0, 8).batch(4);
}

ImageOps coefficients() {
  return decode_image("image").resize(8).normalize().on_device();
}

/// Moves the object away, and expects Error{invalid_argument} of each use of what is left.
template <typename T>
void expect_throws(T object, const std::string& text,
                   const std::vector<std::function<void(T&)>>& uses) {
  const T owner = std::move(object);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    SCOPED_TRACE(text + ", use " + std::to_string(i));
    expect_error(ErrorCode::invalid_argument, text, [&] { uses[i](object); });
  }
}

TEST(MovedFrom, Dataset) {
  const auto by = [](auto use) { return [use](Dataset& data) { static_cast<void>(use(data)); }; };
  expect_throws<Dataset>(
      images(), "the dataset was moved from",
      {by([](Dataset& d) { return d.iterate(); }), by([](Dataset& d) { return d.spec(); }),
       by([](Dataset& d) { return d.cardinality(); }), by([](Dataset& d) { return d.guarantee(); }),
       by([](Dataset& d) { return d.shuffle(); }), by([](Dataset& d) { return d.batch(2); }),
       by([](Dataset& d) { return d.map(decode_image("image")); }),
       by([](Dataset& d) { return d.map([](Element e) { return e; }); }),
       by([](Dataset& d) { return d.concatenate(images()); }),
       by([](Dataset& d) { return images().concatenate(d); }), by([](Dataset& d) {
         return zip({images(), d});
       }),
       by([](Dataset& d) {
         return sample_from({images(), d}, {1, 1});
       }),
       by([](Dataset& d) { return d.split_at(0.5, 1); }),
       by([](Dataset& d) { return d.explain(); }),
       by([](Dataset& d) { return Feed(d, devices("host:0")); }),
       by([](Dataset& d) { return d.restore("state"); })});
  Dataset again = images();
  const Dataset owner = std::move(again);
  again = images();
  EXPECT_EQ(again.cardinality(), 8);
  EXPECT_EQ(owner.cardinality(), 8);
}

TEST(MovedFrom, ImageOps) {
  const auto by = [](auto use) { return [use](ImageOps& ops) { static_cast<void>(use(ops)); }; };
  expect_throws<ImageOps>(
      decode_image("image"), "the chain of image ops was moved from",
      {by([](ImageOps& o) { return o.resize(8); }), by([](ImageOps& o) { return o.normalize(); }),
       by([](ImageOps& o) { return o.on_device(); }), by([](ImageOps& o) { return o.op(); }),
       by([](ImageOps& o) { return o.component(); }),
       by([](ImageOps& o) { return o.is_on_device(); }),
       by([](ImageOps& o) { return o.plan_component(); }),
       by([](ImageOps& o) { return images().map(o); })});
}

TEST(MovedFrom, MixWeights) {
  expect_throws<MixWeights>(MixWeights(std::vector<double>{1, 2}),
                            "the record of weights was moved from",
                            {[](MixWeights& w) {
                               w.set({1, 1});
                             },
                             [](MixWeights& w) { w.changes(); },
                             [](MixWeights& w) {
                               sample_from({images(), images()}, w);
                             }});
}

TEST(MovedFrom, Iterator) {
  expect_throws<Iterator>(
      images().iterate(), "the iterator was moved from",
      {[](Iterator& i) { i.stats(); }, [](Iterator& i) { i.save(); },
       [](Iterator& i) { report(i); }, [](Iterator& i) { throw i.next().error(); }});
}

TEST(MovedFrom, Feed) {
  expect_throws<Feed>(
      Feed(batches(), devices("host:0")), "the feed was moved from",
      {[](Feed& f) { f.next(0); }, [](Feed& f) { f.epochs(0); }, [](Feed& f) { f.taken(0); },
       [](Feed& f) { f.device(0); }, [](Feed& f) { f.stats(); }, [](Feed& f) { f.save(); },
       [](Feed& f) { report(f); }});
  Feed feed(batches(), devices("host:0"));
  Feed owner = std::move(feed);
  EXPECT_TRUE(feed.ended(0));
  EXPECT_EQ(feed.towers(), 0);
  feed.cancel();
  feed = std::move(owner);
  EXPECT_TRUE(feed.next(0));
}

TEST(MovedFrom, StagingArea) {
  const DevicePtr host = device({DeviceKind::host, 0});
  expect_throws<StagingArea>(
      StagingArea(host, batches().spec(), 4), "the staging area was moved from",
      {[](StagingArea& a) { a.reserve(); }, [](StagingArea& a) { a.put(Element()); },
       [](StagingArea& a) { a.put_end(); }, [](StagingArea& a) { a.get(); },
       [](StagingArea& a) { a.put_error(Error(ErrorCode::user, "x")); },
       [](StagingArea& a) { a.peek(); }, [](StagingArea& a) { a.size(); },
       [](StagingArea& a) { a.clear(); }, [](StagingArea& a) { a.device(); },
       [](StagingArea& a) { a.fail(Error(ErrorCode::user, "x")); }});
  StagingArea area(host, batches().spec(), 4);
  const StagingArea owner = std::move(area);
  EXPECT_EQ(area.slots(), 0);
  EXPECT_EQ(area.slot_bytes(), 0U);
}

TEST(MovedFrom, StagingPermit) {
  const DevicePtr host = device({DeviceKind::host, 0});
  StagingArea area(host, batches().spec(), 4);
  StagingPermit permit = area.reserve();
  const StagingPermit owner = std::move(permit);
  expect_error(ErrorCode::invalid_argument, "the permit was moved from",
               [&] { area.put(std::move(permit), {}); });
}

TEST(MovedFrom, StagedBatch) {
  Feed feed(batches(), devices("host:0"));
  const Stream stream(feed.device(0).shared_from_this(), "tower");
  const auto expect_gone = [&](StagedBatch& batch) {
    const char* const text = "the batch was released or moved from";
    expect_error(ErrorCode::invalid_argument, text, [&] { batch.wait(stream); });
    expect_error(ErrorCode::invalid_argument, text, [&] { batch.synchronize(); });
    expect_error(ErrorCode::invalid_argument, text, [&] { batch.at(0); });
    expect_error(ErrorCode::invalid_argument, text, [&] { batch["value"]; });
    EXPECT_EQ(batch.size(), 0U);
    EXPECT_EQ(batch.valid_rows(), 0);
    EXPECT_EQ(batch.sequence(), 0U);
    EXPECT_EQ(batch.slot(), -1);
    EXPECT_FALSE(batch.has("value"));
    batch.release(stream);
    batch.release();
  };
  StagedBatch batch = feed.next(0).value();
  batch.wait(stream);
  StagedBatch owner = std::move(batch);
  expect_gone(batch);
  EXPECT_EQ(owner.valid_rows(), 4);
  owner.release(stream);
  expect_gone(owner);
  expect_error(ErrorCode::invalid_argument, "moved from",
               [&] { ExportedBatch(std::move(batch), stream); });
}

TEST(MovedFrom, ExportedBatch) {
  Feed feed(batches(), devices("host:0"));
  const Stream stream(feed.device(0).shared_from_this(), "tower");
  expect_throws<ExportedBatch>(ExportedBatch(feed.next(0).value(), stream),
                               "the exported batch was moved from",
                               {[](ExportedBatch& b) { b.tensor("value"); },
                                [](ExportedBatch& b) { b.versioned("value"); }});
}

TEST(MovedFrom, StreamsAndEvents) {
  const DevicePtr host = device({DeviceKind::host, 0});
  expect_throws<Stream>(Stream(host, "a"), "the stream was moved from",
                        {[](Stream& s) { s.view(); }, [](Stream& s) { StreamView(s).native(); }});
  expect_throws<Event>(Event(host), "the event was moved from", {[](Event& e) { e.view(); }});
  Stream stream(host, "kept");
  StreamView view = stream;
  const StreamView other = std::move(view);
  EXPECT_EQ(view.name(), "kept") << "moving a view copies it";
  EXPECT_EQ(view, other);
}

TEST(MovedFrom, Reconstructor) {
  const DevicePtr host = device({DeviceKind::host, 0});
  const Stream stream(host, "tower");
  expect_throws<Reconstructor>(
      Reconstructor(host, 4, coefficients()), "the reconstructor was moved from",
      {[](Reconstructor& r) { r.image(); },
       [&](Reconstructor& r) { r.run(stream, DeviceTensor{}, DeviceTensor{}, DeviceTensor{}); }});
}

TEST(MovedFrom, Values) {
  Element element = range(0, 3).iterate().next().value();
  const Element owner = std::move(element);
  EXPECT_EQ(element.size(), 0U);
  EXPECT_FALSE(element.has("value"));
  expect_error(ErrorCode::not_found, "value", [&] { element["value"]; });
  Tensor tensor = Tensor::scalar(std::int64_t{7});
  const Tensor kept = std::move(tensor);
  EXPECT_EQ(tensor.nbytes(), 0U);
  EXPECT_EQ(kept.nbytes(), 8U);
  Spec spec = batches().spec();
  const Spec same = std::move(spec);
  EXPECT_EQ(spec.size(), 0U);
  EXPECT_EQ(spec.find("value"), -1);
  Status status(ErrorCode::user, "x");
  const Status error = std::move(status);
  EXPECT_TRUE(status.ok());
  EXPECT_FALSE(error.ok());
}

}  // namespace
}  // namespace penstock

// NOLINTEND(bugprone-use-after-move)
