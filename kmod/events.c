// SPDX-License-Identifier: GPL-2.0-only
/*
 * The generic netlink family: listeners of the group "events" receive what
 * processes announce about themselves.
 *
 * No process can speak for another: an event is made in the context of the
 * process that acts and carries that process's pid; the target it names is its
 * own claim. No user sees other users' processes: an event stays in the
 * network namespace of its process and reaches only sockets of the same user
 * and of those who could trace the process anyway. On kernels that cannot
 * filter per receiver, only the administrator of the namespace may join. The
 * pid is the one in the process's own pid namespace, sent with that
 * namespace's inode, so that a listener knows whether the number means
 * anything to it.
 */
#include <linux/cred.h>
#include <linux/nsproxy.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <net/genetlink.h>
#include <net/sock.h>

#include "bounds.h"
#include "budget.h"
#include "compat.h"
#include "module.h"

/*
 * One budget per user. Memory is bounded and nothing has to be freed, since a
 * budget is free again when its second is over.
 */
#define BUDGETS 256
static struct cryo_budget budgets[BUDGETS];
static DEFINE_SPINLOCK(budgets_lock); /* a leaf lock: no other lock is taken under it */

static const struct genl_multicast_group groups[] = {
	{ .name = CRYO_GENL_EVENTS, .flags = CRYO_EVENTS_GROUP_FLAGS },
};

static struct genl_family family = {
	.name = CRYO_GENL_NAME,
	.version = CRYO_GENL_VERSION,
	.maxattr = CRYO_EVENT_A_MAX,
	.netnsok = true,
	.module = THIS_MODULE,
	.mcgrps = groups,
	.n_mcgrps = ARRAY_SIZE(groups),
};

/*
 * The user whose budget pays. The creator of a user namespace has many ids in it
 * and may create many namespaces, but has one budget for all of them. A namespace
 * that root created (a container) has its own budget, apart from root's.
 */
static u64 account_of(const struct cred *cred)
{
	const struct user_namespace *ns = cred->user_ns;

	if (ns == &init_user_ns)
		return __kuid_val(cred->euid);
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
		return __kuid_val(ns->owner);
	return 1ULL << 32 | ns->ns.inum;
}

static bool over_rate(void)
{
	u64 who = account_of(current_cred());
	bool taken;

	spin_lock(&budgets_lock);
	taken = cryo_budget_take(budgets, BUDGETS, CRYO_EVENT_RATE, who,
				 ktime_get_ns());
	spin_unlock(&budgets_lock);
	return !taken;
}

/* Filter of the multicast: nonzero keeps the event from @sk. */
static int hide_from(struct sock *sk, struct sk_buff *skb, void *data)
{
	const struct cred *cred = data;
	struct socket *sock = sk->sk_socket;

	if (uid_eq(READ_ONCE(sk->sk_uid), cred->euid))
		return 0;
	if (sock && sock->file &&
	    file_ns_capable(sock->file, cred->user_ns, CAP_SYS_PTRACE))
		return 0;
	return 1;
}

static int put_event(struct sk_buff *skb, const struct cryo_event *event)
{
	struct pid_namespace *ns = task_active_pid_ns(current);

	if (nla_put_u32(skb, CRYO_EVENT_A_PID, task_tgid_nr_ns(current, ns)) ||
	    nla_put_u64_64bit(skb, CRYO_EVENT_A_PIDNS, ns->ns.inum,
			      CRYO_EVENT_A_PAD) ||
	    nla_put_u32(skb, CRYO_EVENT_A_OPERATION, event->operation) ||
	    nla_put_u32(skb, CRYO_EVENT_A_PHASE, event->phase) ||
	    nla_put_u32(skb, CRYO_EVENT_A_ERROR, event->error) ||
	    nla_put_u32(skb, CRYO_EVENT_A_TARGET, event->target) ||
	    nla_put_u64_64bit(skb, CRYO_EVENT_A_BYTES_DONE, event->bytes_done,
			      CRYO_EVENT_A_PAD) ||
	    nla_put_u64_64bit(skb, CRYO_EVENT_A_BYTES_TOTAL, event->bytes_total,
			      CRYO_EVENT_A_PAD))
		return -EMSGSIZE;
	return 0;
}

static int send_event(struct net *net, const struct cryo_event *event)
{
	struct sk_buff *skb;
	void *header;
	int rc;

	skb = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	header = genlmsg_put(skb, 0, 0, &family, 0, CRYO_GENL_CMD_EVENT);
	rc = header ? put_event(skb, event) : -EMSGSIZE;
	if (rc) {
		nlmsg_free(skb);
		return rc;
	}
	genlmsg_end(skb, header);

	/*
	 * A listener whose buffer is full loses the event and learns it from
	 * its own socket; having no listener left is no error either.
	 */
	cryo_multicast(&family, net, skb, 0, 0, GFP_KERNEL, hide_from,
		       (void *)current_cred());
	return 0;
}

int cryo_event(struct cryo_ucmd *ucmd)
{
	struct cryo_event *cmd = ucmd->cmd;
	struct net *net = current->nsproxy->net_ns;
	int rc;

	rc = cryo_check_event(cmd);
	if (rc)
		return rc;
	if (over_rate())
		return -EAGAIN;
	if (!genl_has_listeners(&family, net, 0))
		return 0;
	return send_event(net, cmd);
}

int cryo_events_register(void)
{
	return genl_register_family(&family);
}

void cryo_events_unregister(void)
{
	genl_unregister_family(&family);
}
