#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Puts the RNBD client and soft-RoCE into the initramfs. Does nothing unless a
# file in /etc/dracut.conf.d has the line
#
#	add_dracutmodules+=" rnbd "
#
# and dracut -f was run afterwards. Nothing maps a disk there by itself: that
# is for a dracut module of your own.

# 255: only on request
check() {
	return 255
}

# To set up soft-RoCE
install() {
	inst_multiple -o ip rdma
}

installkernel() {
	# Without hostonly, which leaves out what is not loaded now
	hostonly='' instmods rnbd-client
	# a kernel for machines with adapters may lack it
	hostonly='' instmods '=drivers/infiniband/sw/rxe' || :
}
