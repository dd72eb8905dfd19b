# SPDX-License-Identifier: GPL-2.0
#
# With a vendor's RDMA stack (RNBD_OFED, set by compat/build) both passes see
# its headers before the kernel's, and what it includes everywhere.

ifneq ($(RNBD_OFED),)
LINUXINCLUDE := -I$(RNBD_OFED)/include -I$(RNBD_OFED)/include/uapi $(LINUXINCLUDE) \
	$(addprefix -include ,$(wildcard $(RNBD_OFED)/include/linux/compat-2.6.h))
endif
