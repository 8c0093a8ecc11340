// Nobody is talked to.
#include "tests/fuzz/targets.h"

namespace penstock::fuzz {

void run_etcd(Bytes /*input*/) {}
void run_parameters(Bytes /*input*/) {}
void run_wire(Bytes /*input*/) {}
std::vector<std::string> etcd_seeds() {
  return {""};
}
std::vector<std::string> parameters_seeds() {
  return {""};
}
std::vector<std::string> wire_seeds() {
  return {""};
}

}  // namespace penstock::fuzz
