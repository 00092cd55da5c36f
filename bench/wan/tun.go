package wan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

const (
	deviceName = "wan0"
	// transmitQueue is in packets; the default of 500 would drop a burst before the link has seen
	// it.
	transmitQueue = 10000
)

// openTUN makes the device of one side, in the namespace of the calling thread, with its address in
// a /24.
func openTUN(address netip.Addr, mtu int, offload bool) (*os.File, error) {
	device, err := newTUN(offload)
	if err != nil {
		return nil, err
	}
	if err := configure(deviceName, address, mtu); err != nil {
		device.Close()
		return nil, fmt.Errorf("device %s: %w", deviceName, err)
	}
	return device, nil
}

func newTUN(offload bool) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	request, err := unix.NewIfreq(deviceName)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	err = os.NewSyscallError("TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, request))
	if err == nil && offload {
		// Segments then cross the relay in runs of up to 64 KiB, which spares it and both kernels
		// most of the work.
		err = os.NewSyscallError("TUNSETOFFLOAD",
			unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4))
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "/dev/net/tun"), nil
}

// configure gives a device its address and brings it and the loopback up.
func configure(device string, address netip.Addr, mtu int) error {
	ip, netmask := address.As4(), [4]byte{255, 255, 255, 0}
	return errors.Join(
		set(device, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(ip[:]) }),
		set(device, unix.SIOCSIFNETMASK,
			func(r *unix.Ifreq) error { return r.SetInet4Addr(netmask[:]) }),
		set(device, unix.SIOCSIFMTU, func(r *unix.Ifreq) error {
			r.SetUint32(uint32(mtu))
			return nil
		}),
		setTransmitQueue(device, transmitQueue),
		bringUp(device),
		bringUp("lo"),
	)
}

func bringUp(device string) error {
	return set(device, unix.SIOCSIFFLAGS,
		func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil })
}

// set makes one of the requests of netdevice(7) in the namespace of the calling thread.
func set(device string, what uint, fill func(*unix.Ifreq) error) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq(device)
	if err == nil {
		err = fill(request)
	}
	if err != nil {
		return err
	}
	return unix.IoctlIfreq(socket, what, request)
}

// setTransmitQueue asks by rtnetlink(7), because SIOCSIFTXQLEN wants to be root outside the user
// namespace too.
func setTransmitQueue(device string, packets uint32) error {
	link, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	const length = unix.SizeofNlMsghdr + unix.SizeofIfInfomsg + unix.SizeofRtAttr + 4
	order := binary.NativeEndian
	m := order.AppendUint32(nil, length) // nlmsghdr: length, type, flags, sequence, port
	m = order.AppendUint16(m, unix.RTM_NEWLINK)
	m = order.AppendUint16(m, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	m = append(m, make([]byte, 8)...)
	m = append(m, make([]byte, 4)...) // ifinfomsg: family and type, index, flags, their mask
	m = order.AppendUint32(m, uint32(link.Index))
	m = append(m, make([]byte, 8)...)
	m = order.AppendUint16(m, unix.SizeofRtAttr+4)
	m = order.AppendUint16(m, unix.IFLA_TXQLEN)
	m = order.AppendUint32(m, packets)

	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	if err := unix.Sendto(socket, m, 0,
		&unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, reply, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || order.Uint16(reply[4:]) != unix.NLMSG_ERROR {
		return errors.New("rtnetlink: no acknowledgement")
	}
	if code := int32(order.Uint32(reply[unix.SizeofNlMsghdr:])); code != 0 {
		return os.NewSyscallError("RTM_NEWLINK", unix.Errno(-code))
	}
	return nil
}
