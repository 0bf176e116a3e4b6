//! Capabilities: only ever dropped.

use std::io;

use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities,
    set_capabilities_secure_bits, set_no_new_privs,
};

/// Drop every capability from all five sets, lock the bits that would give them back to uid 0, and set
/// `no_new_privs`.
pub fn drop_all_capabilities() -> io::Result<()> {
    // From the highest: EINVAL says that the kernel has no such capability.
    for capability in 0..64 {
        // SAFETY: PR_CAPBSET_DROP takes a number and touches no memory.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EINVAL) {
                break;
            }
            return Err(error);
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )?;
    empty_sets()?;
    set_no_new_privs(true)?;
    Ok(())
}

/// Give up the capabilities that this process has, which needs none; it may have them again in a user namespace of its own.
pub fn give_up_capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    empty_sets()
}

fn empty_sets() -> io::Result<()> {
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}
