// SPDX-License-Identifier: GPL-2.0
/* The one place where the tracepoints are defined. */
#define CREATE_TRACE_POINTS
#include "rtrs/client/trace.h"
