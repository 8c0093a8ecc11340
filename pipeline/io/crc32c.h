#pragma once

#include <penstock/crc32c.h>
