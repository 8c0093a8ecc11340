// Transactions of etcd, which write only if the keys are as expected.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/net/etcd.pb.h"

namespace penstock::cluster {

/// A transaction. If all keys have the given creation revisions, etcd carries out the puts and
/// gets; else it reads the keys of `otherwise_get`.
///
///     EtcdTxn().created_at("k", 0).put("k", "v", lease).otherwise_get("k")
class EtcdTxn {
 public:
  /// Expects this creation revision; 0 means that the key does not exist.
  EtcdTxn& created_at(const std::string& key, std::int64_t revision) {
    etcdserverpb::Compare& compare = *request_.add_compare();
    compare.set_target(etcdserverpb::Compare::CREATE);
    compare.set_key(key);
    compare.set_create_revision(revision);
    return *this;
  }
  EtcdTxn& put(const std::string& key, const std::string& value, std::int64_t lease) {
    etcdserverpb::PutRequest& put = *request_.add_success()->mutable_request_put();
    put.set_key(key);
    put.set_value(value);
    put.set_lease(lease);
    return *this;
  }
  EtcdTxn& get(const std::string& key) {
    request_.add_success()->mutable_request_range()->set_key(key);
    return *this;
  }
  EtcdTxn& otherwise_get(const std::string& key) {
    request_.add_failure()->mutable_request_range()->set_key(key);
    return *this;
  }
  const etcdserverpb::TxnRequest& request() const noexcept { return request_; }

 private:
  etcdserverpb::TxnRequest request_;
};

/// Returns the key that part `index` of the transaction read; null if it does not exist.
inline const etcdserverpb::KeyValue* read_by(const etcdserverpb::TxnResponse& reply, int index) {
  if (index >= reply.responses_size()) return nullptr;
  const etcdserverpb::RangeResponse& range = reply.responses(index).response_range();
  return range.kvs_size() == 1 ? &range.kvs(0) : nullptr;
}

}  // namespace penstock::cluster
