// Everything: an asynchronous input pipeline for GPU towers.
#pragma once

#include <penstock/language.h>  // IWYU pragma: keep

#include <penstock/batch_ops.h>      // IWYU pragma: export
#include <penstock/dataset.h>        // IWYU pragma: export
#include <penstock/device.h>         // IWYU pragma: export
#include <penstock/durable_file.h>   // IWYU pragma: export
#include <penstock/feed.h>           // IWYU pragma: export
#include <penstock/image_records.h>  // IWYU pragma: export
#include <penstock/log.h>            // IWYU pragma: export
#include <penstock/plan.h>           // IWYU pragma: export
#include <penstock/reconstruct.h>    // IWYU pragma: export
#include <penstock/report.h>         // IWYU pragma: export
#include <penstock/sources.h>        // IWYU pragma: export
#include <penstock/staging_area.h>   // IWYU pragma: export
#include <penstock/state_file.h>     // IWYU pragma: export
#include <penstock/version.h>        // IWYU pragma: export
