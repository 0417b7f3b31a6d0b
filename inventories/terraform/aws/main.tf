# AWS: p5.48xlarge with eight H100 80GB a host, or another instance type. Nobody has applied this file: terraform/README.md.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "hosts" {
  description = "Private address of each host, by the name that the inventory has."
  type        = map(string)
  default = {
    "gpu-01.example.internal" = "10.0.0.11"
    "gpu-02.example.internal" = "10.0.0.12"
  }
}

variable "instance_type" {
  description = "p5.48xlarge has eight H100 80GB, g6e.xlarge one L40S."
  type        = string
  default     = "p5.48xlarge"
}

variable "volume_gib" {
  description = "Root volume, which holds images, weights and engines; 200 suffices one L40S."
  type        = number
  default     = 500
}

variable "user_data" {
  description = "Folder that `enginehouse export cloud-init --into` wrote; empty for hosts that are deployed over SSH."
  type        = string
  default     = ""
}

variable "image" {
  description = "AMI of Ubuntu 24.04 or Debian 12 without a driver of its own."
  type        = string
}

variable "subnet" {
  description = "Subnet that holds the private addresses."
  type        = string
}

variable "security_groups" {
  description = "Groups that let the control machine reach port 22, and balancers the servers."
  type        = list(string)
}

variable "key_name" {
  description = "Key pair of the control machine."
  type        = string
}

variable "instance_profile" {
  description = "Instance profile whose role may read the hosts' secrets; empty for none."
  type        = string
  default     = ""
}

variable "spot" {
  description = "Spot instances: the provider may take them back, so declare notices=\"aws\"."
  type        = bool
  default     = false
}

resource "aws_instance" "host" {
  for_each = var.hosts

  ami                    = var.image
  instance_type          = var.instance_type
  subnet_id              = var.subnet
  private_ip             = each.value
  vpc_security_group_ids = var.security_groups
  key_name               = var.key_name
  iam_instance_profile   = var.instance_profile == "" ? null : var.instance_profile
  user_data              = var.user_data == "" ? null : file("${var.user_data}/${each.key}.yaml")

  dynamic "instance_market_options" {
    for_each = var.spot ? [1] : []
    content {
      market_type = "spot"
    }
  }

  # The host asks with a token, and containers behind a bridge are one hop too far.
  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    volume_size = var.volume_gib
    volume_type = "gp3"
  }

  tags = {
    Name = each.key
  }
}

output "hosts" {
  value = {
    for name, host in aws_instance.host : name => {
      ssh_hostname = host.private_ip
      ssh_user     = "ubuntu"
      peer_address = host.private_ip
    }
  }
}
