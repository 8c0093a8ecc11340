#pragma once

#include <penstock/start_thread.h>
