#include "tests/support/object_store.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace penstock::test {
namespace {

/// A parameter of a query.
std::string parameter(const std::string& query, const std::string& name) {
  const std::string all = '&' + query;
  const std::size_t at = all.find('&' + name + '=');
  if (at == all.npos) return {};
  const std::size_t from = at + name.size() + 2;
  return all.substr(from, all.find('&', from) - from);
}

StoreReply refusal(const std::string& status, const std::string& code) {
  return {status, {}, "<Error><Code>" + code + "</Code></Error>"};
}

}  // namespace

std::string etag_of(std::string_view contents) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : contents) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  char text[20];
  std::snprintf(text, sizeof(text), "\"%016" PRIx64 "\"", hash);
  return text;
}

std::shared_ptr<const StoredObject> ObjectStore::find(const std::string& path) const {
  const MutexLock lock(mutex_);
  const auto found = objects_.find(path);
  return found != objects_.end() ? found->second : nullptr;
}

void ObjectStore::put(const std::string& path, std::string contents, std::string mark) {
  const MutexLock lock(mutex_);
  keep(path, std::move(contents), std::move(mark));
}

ObjectStore::Objects ObjectStore::objects() const {
  const MutexLock lock(mutex_);
  return objects_;
}

std::size_t ObjectStore::open_uploads() const {
  const MutexLock lock(mutex_);
  return uploads_.size();
}

StoreReply ObjectStore::write(const StoreRequest& request) {
  const MutexLock lock(mutex_);
  if (request.query == "uploads" || request.query == "uploads=") return begin_upload(request);
  if (!parameter(request.query, "uploadId").empty()) return of_upload(request);
  if (request.method == "PUT") return put_object(request);
  if (request.method != "DELETE") return refusal("405 Method Not Allowed", "MethodNotAllowed");
  objects_.erase(request.path);
  return {"204 No Content", {}, {}};
}

StoreReply ObjectStore::put_object(const StoreRequest& request) {
  const auto found = objects_.find(request.path);
  const bool is_there = found != objects_.end();
  if (conditions_ && request.if_none_match == "*" && is_there)
    return refusal("412 Precondition Failed", "PreconditionFailed");
  if (conditions_ && !request.if_match.empty()) {
    if (!is_there) return refusal("404 Not Found", "NoSuchKey");
    if (found->second->etag != request.if_match)
      return refusal("412 Precondition Failed", "PreconditionFailed");
  }
  return {"200 OK", "ETag: " + keep(request.path, request.body, request.mark) + "\r\n", {}};
}

StoreReply ObjectStore::begin_upload(const StoreRequest& request) {
  const std::string id = "upload/" + std::to_string(++last_upload_) + "=";
  uploads_[id] = {request.path, request.mark, {}};
  return {"200 OK",
          {},
          "<?xml version=\"1.0\"?>\n<InitiateMultipartUploadResult><UploadId>" + id +
              "</UploadId></InitiateMultipartUploadResult>"};
}

StoreReply ObjectStore::of_upload(const StoreRequest& request) {
  std::string id = parameter(request.query, "uploadId");
  for (const auto& [encoded, plain] : {std::pair("%2F", "/"), std::pair("%3D", "=")})
    for (std::size_t at = 0; (at = id.find(encoded)) != id.npos;) id.replace(at, 3, plain);
  const auto found = uploads_.find(id);
  if (found == uploads_.end() || found->second.path != request.path)
    return refusal("404 Not Found", "NoSuchUpload");
  Upload& upload = found->second;
  if (request.method == "DELETE") {
    uploads_.erase(found);
    return {"204 No Content", {}, {}};
  }
  if (request.method == "PUT") {
    const int number = std::atoi(parameter(request.query, "partNumber").c_str());
    upload.parts[number] = request.body;
    return {"200 OK", "ETag: " + etag_of(request.body) + "\r\n", {}};
  }
  StoreReply reply = complete(request, upload);
  if (reply.status == "200 OK") uploads_.erase(found);
  return reply;
}

StoreReply ObjectStore::complete(const StoreRequest& request, const Upload& upload) {
  std::string contents;
  std::size_t parts = 0;
  std::string_view xml = request.body;
  while (true) {
    const std::size_t at = xml.find("<Part><PartNumber>");
    if (at == xml.npos) break;
    xml.remove_prefix(at + 18);
    const auto part = upload.parts.find(std::atoi(std::string(xml.substr(0, 8)).c_str()));
    const std::size_t from = xml.find("<ETag>") + 6;
    const std::string_view etag = xml.substr(from, xml.find("</ETag>") - from);
    if (part == upload.parts.end() || etag != etag_of(part->second) ||
        part->first != static_cast<int>(++parts))
      return refusal("400 Bad Request", "InvalidPart");
    contents += part->second;
  }
  if (parts == 0) return refusal("400 Bad Request", "MalformedXML");
  return {"200 OK",
          {},
          "<CompleteMultipartUploadResult xmlns=\"x\"><ETag>" +
              keep(upload.path, std::move(contents), upload.mark) +
              "</ETag></CompleteMultipartUploadResult>"};
}

const std::string& ObjectStore::keep(const std::string& path, std::string contents,
                                     std::string mark) {
  std::string etag = etag_of(contents);
  auto& place = objects_[path];
  place = std::make_shared<const StoredObject>(
      StoredObject{std::move(contents), std::move(etag), std::move(mark)});
  return place->etag;
}

}  // namespace penstock::test
