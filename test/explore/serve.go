package explore

import (
	"context"

	"github.com/holdfast-project/holdfast/internal/identity"
	"github.com/holdfast-project/holdfast/internal/kube"
)

// The four requests of cleanup.Cluster, each answered as internal/kube reports
// what a server, a gateway or nobody says.

// ClusterIdentity reads the two Namespaces.
func (p *Play) ClusterIdentity(_ context.Context, namespace string) kube.ClusterReading {
	hit := p.strike()
	world := p.serving(hit)
	place := func(name string) identity.Object {
		return identity.Object{APIVersion: "v1", Kind: "Namespace", Name: name}
	}
	if world == nil || hit == LostReply {
		return kube.ClusterReading{Namespace: unreadable(place(namespace)), KubeSystem: unreadable(place("kube-system"))}
	}
	read := func(name, uid string) kube.Observation {
		object := place(name)
		object.UID = uid
		return kube.Observation{Presence: kube.Present, Meta: kube.Meta{Object: object}}
	}
	reading := kube.ClusterReading{Namespace: read(namespace, world.Cluster.NamespaceUID), KubeSystem: read("kube-system", world.Cluster.KubeSystemUID)}
	if p.weather.What == Reborn {
		p.struck = true
		reading.Namespace.Meta.Object.UID = "0badc0de-0000-4000-8000-000000000003"
	}
	if p.weather.What == NoKubeSystem {
		refused := &kube.Refused{Answer: kube.Answer{Verb: "get", Object: place("kube-system"), Code: 403}}
		p.struck = true
		reading.KubeSystem = kube.Observation{Err: refused}
	}
	return reading
}

func unreadable(place identity.Object) kube.Observation {
	return kube.Observation{Err: &kube.Unreadable{Answer: kube.Answer{Verb: "get", Object: place, Code: 404}, Cause: errLost}}
}

// Observe reads one name.
func (p *Play) Observe(_ context.Context, place identity.Object) kube.Observation {
	hit := p.strike()
	world := p.serving(hit)
	if world == nil || hit == LostReply {
		return unreadable(place)
	}
	i := world.find(place)
	if i < 0 {
		return kube.Observation{Presence: kube.Absent, Err: &kube.Gone{Answer: kube.Answer{Verb: "get", Object: place, Code: 404}}}
	}
	return kube.Observation{Presence: kube.Present, Meta: world.Objects[i].Meta()}
}

// Pods lists the Pods.
func (p *Play) Pods(context.Context, string) (pods []kube.Meta, err error) {
	hit := p.strike()
	world := p.serving(hit)
	if world == nil || hit == LostReply {
		return nil, &kube.Unreadable{Answer: kube.Answer{Verb: "list", Code: 404}, Cause: errLost}
	}
	for i := range world.Objects {
		if world.Objects[i].Kind == "Pod" {
			pods = append(pods, world.Objects[i].Meta())
		}
	}
	return pods, nil
}

// Delete deletes, after the oracle has judged that this leaves at all.
func (p *Play) Delete(_ context.Context, object identity.Object, propagation kube.Propagation) error {
	hit := p.strike()
	p.oracle.deletes(p.world, object, propagation)
	lost := &kube.UnknownOutcome{Answer: kube.Answer{Verb: "delete", Object: object}, Cause: errLost}
	world := p.serving(hit)
	if world == nil {
		return lost
	}
	before := world.Hash()
	err := world.Delete(object, propagation)
	if world == p.world && world.Hash() != before {
		p.changed(world)
	}
	if hit == LostReply {
		return lost
	}
	return err
}
