#include "pipeline/sources/patient_file.h"

namespace penstock {

void PatientFile::read(std::span<ReadRequest> requests) {
  file_->read(requests);
  for (ReadRequest& request : requests) {
    for (int tries = 1; !request.status.ok() && (*context_)->again(request.status.error(), tries);
         ++tries) {
      request.status = Status();
      file_->read({&request, 1});
    }
  }
}

}  // namespace penstock
