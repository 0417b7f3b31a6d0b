# Google Compute Engine, a3-highgpu-8g: eight H100 80GB a host. Nobody has applied this file: terraform/README.md.

terraform {
  required_version = ">= 1.5"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 5.0"
    }
  }
}

variable "hosts" {
  description = "Private address of each host, by the name that the inventory has."
  type        = map(string)
  default = {
    "a3-01.example.internal" = "10.0.0.11"
    "a3-02.example.internal" = "10.0.0.12"
  }
}

variable "user_data" {
  description = "Folder that `enginehouse export cloud-init --into` wrote; empty for hosts that are deployed over SSH."
  type        = string
  default     = ""
}

variable "zone" {
  description = "Zone that has a3-highgpu-8g, and quota for it."
  type        = string
}

variable "image" {
  description = "Image with cloud-init, which Google's images of Ubuntu have."
  type        = string
  default     = "ubuntu-os-cloud/ubuntu-2404-lts-amd64"
}

variable "subnetwork" {
  description = "Subnetwork that holds the private addresses."
  type        = string
}

variable "ssh_key" {
  description = "Public key of the control machine, as one line."
  type        = string
}

variable "service_account" {
  description = "Account that may read the hosts' secrets."
  type        = string
}

variable "spot" {
  description = "Spot VMs: the provider may take them back, so declare notices=\"gcp\"."
  type        = bool
  default     = false
}

resource "google_compute_instance" "host" {
  for_each = var.hosts

  name         = replace(each.key, ".", "-")
  machine_type = "a3-highgpu-8g"
  zone         = var.zone

  boot_disk {
    initialize_params {
      image = var.image
      size  = 500
      type  = "pd-ssd"
    }
  }

  network_interface {
    subnetwork = var.subnetwork
    network_ip = each.value
  }

  metadata = merge(
    { "ssh-keys" = "ubuntu:${var.ssh_key}" },
    var.user_data == "" ? {} : { "user-data" = file("${var.user_data}/${each.key}.yaml") },
  )

  service_account {
    email  = var.service_account
    scopes = ["cloud-platform"]
  }

  # A VM with GPUs cannot be moved while it runs.
  scheduling {
    on_host_maintenance = "TERMINATE"
    automatic_restart   = !var.spot
    preemptible         = var.spot
    provisioning_model  = var.spot ? "SPOT" : "STANDARD"
  }
}

output "hosts" {
  value = {
    for name, host in google_compute_instance.host : name => {
      ssh_hostname = host.network_interface[0].network_ip
      ssh_user     = "ubuntu"
      peer_address = host.network_interface[0].network_ip
    }
  }
}
