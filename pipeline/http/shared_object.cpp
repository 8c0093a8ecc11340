#include "pipeline/http/shared_object.h"

#include <utility>

#include <penstock/error.h>

#include "pipeline/http/http_file.h"

namespace penstock::http {
namespace {

constexpr int kMostChanges = 3;  // while one reader reads
constexpr const char* kIfNone = "If-None-Match: *";
/// No version has this ETag: ETags are hashes, or numbers of versions.
constexpr const char* kIfNever = "If-Match: \"penstock-none-is-called-so\"";

}  // namespace

std::optional<std::string> SharedObject::read(std::size_t most_bytes) {
  is_checked_ = false;
  contents_.clear();
  etag_.clear();
  // Reads by ranges of a known version, as all data are read: a whole answer could have any length.
  for (int changed = 0;; ++changed) {
    PinnedObject object;
    try {
      object = place_.client->find(place_.path, place_.url());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
      return {};
    }
    if (object.etag.empty())
      throw Error(ErrorCode::invalid_argument,
                  "the store gives no strong ETag for it, which conditional writes need",
                  {.shard = place_.path});
    try {
      const std::vector<std::byte> bytes = HttpFile(place_.client, object).read_all(most_bytes);
      contents_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::changed || changed == kMostChanges) throw;
      continue;  // another has just written it
    }
    etag_ = object.etag;
    return contents_;
  }
}

int SharedObject::write_in_vain(std::string_view contents, const std::string& condition) const {
  std::vector<int> also{412, 501};
  if (etag_.empty()) also.push_back(404);
  // An answer without an ETag was no write: a proxy, say, may have answered once.
  ObjectWrite vain(
      place_,
      {.headers = {condition}, .content = contents, .wants_etag = true, .also = std::move(also)});
  if (element_of(vain.perform(), "Code") == "NoSuchBucket")
    throw Error(ErrorCode::not_found, "can't write: there is no such bucket",
                {.shard = place_.path});
  return vain.head().status;
}

void SharedObject::refuse_store() const {
  throw Error(ErrorCode::invalid_argument,
              "the store at " + place_.url().origin() +
                  " ignores conditional writes (If-None-Match, If-Match), so two runs that write "
                  "here would not notice each other: use another store, or a local file",
              {.shard = place_.path});
}

void SharedObject::check() {
  const auto refuses = [](int status) { return status == 404 || status == 412; };
  if (!etag_.empty()) {
    // A store that ignores the condition writes the same contents again.
    if (write_in_vain(contents_, kIfNone) != 412 || write_in_vain(contents_, kIfNever) != 412)
      refuse_store();
    is_checked_ = true;
    return;
  }
  if (refuses(write_in_vain({}, kIfNever))) return;
  // The write may have made an empty object.
  ObjectWrite(place_, {.method = "DELETE", .also = {404}}).perform();
  refuse_store();
}

SharedObject::Seen SharedObject::look() const {
  ObjectWrite asked(place_, {.method = "HEAD", .wants_etag = true, .also = {404}});
  asked.perform();
  if (asked.head().status == 404) return {};
  return {asked.head().etag, asked.head().write_mark};
}

void SharedObject::write(std::string_view contents) {
  const std::string mark = new_write_mark();
  for (bool again = false;; again = true) {
    ObjectWrite one(place_,
                    {.headers = {etag_.empty() ? std::string(kIfNone) : "If-Match: " + etag_,
                                 write_mark_header(mark)},
                     .content = contents,
                     .wants_etag = true});
    const std::string lost = std::exchange(lost_mark_, mark);
    try {
      one.perform();
      etag_ = one.head().etag;
      break;
    } catch (const Error&) {
      const int status = one.head().status;
      if (status != 404 && status != 412) throw;
      const Seen seen = look();
      if (seen.mark == mark) {  // the answer to this write was lost
        etag_ = seen.etag;
        break;
      }
      const bool mine = !seen.mark.empty() && seen.mark == lost;
      if (again || (!mine && seen.etag != etag_))
        throw Error(ErrorCode::unavailable,
                    seen.etag.empty() ? "it was removed since this run read it"
                                      : "another run has written it since this one read it",
                    {.shard = place_.path});
      etag_ = seen.etag;
    }
  }
  lost_mark_.clear();
  if (std::exchange(is_checked_, true)) return;
  if (write_in_vain(contents, kIfNone) != 412) refuse_store();
}

}  // namespace penstock::http
