#pragma once

#include <penstock/state.h>
